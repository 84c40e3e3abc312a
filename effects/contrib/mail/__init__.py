"""Mail as an effect, and notices as mails: put `effects.contrib.mail` into `INSTALLED_APPS`.

`effects.contrib.mail.effects.SendEmail` sends one message through the project's SMTP server and says what its answers
prove. `EFFECTS = {"NOTIFY": "effects.contrib.mail.notices.notify"}` tells people by it what they have to decide.
"""
