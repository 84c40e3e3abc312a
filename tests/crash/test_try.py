import time, itertools, pytest
from tests.crash.cells import Life, Setting
from tests.crash.oracle import judge, Broken

TROUBLES = {"": None, "reply_lost": None, "request_lost": None, "late": None, "killed": None, "raises": ("declared","opaque"), "hook_raises": None}

@pytest.mark.parametrize("way", ["declared", "opaque", "perform", "worker"])
def test_dry(journal, way):
    n = 0
    for provider, asks, trouble in itertools.product(["deduplicates","authoritative","lagging","none"], [False, True], TROUBLES):
        if TROUBLES[trouble] and way not in TROUBLES[trouble]: continue
        s = Setting(provider, asks, way, trouble)
        t = time.monotonic()
        life = Life(s, journal, watching=True)
        try:
            life.live(); judge(life)
            res = "ok"
        except Broken as e:
            res = f"BROKEN {e}"
        except Exception as e:
            res = f"ERR {type(e).__name__} {e}"
        print(s, f"{time.monotonic()-t:.2f}s", res, life.acts, len(life.points), len(set(life.points)))
        n += 1
