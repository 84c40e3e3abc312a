// Draws the overview's charts with uPlot. The numbers are in the page, as JSON here and as a table beside it; without
// this script nothing but the drawing is missing.
"use strict";
(() => {
  const drawn = [];
  const color = (tone) => getComputedStyle(document.documentElement).getPropertyValue(`--fx-${tone}`).trim();
  const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // each series stands on the ones before it
  const stack = (columns) => {
    const sums = columns[0].map(() => 0);
    return columns.map((column) => column.map((value, i) => (sums[i] += value)));
  };

  const draw = (place) => {
    const given = JSON.parse(document.getElementById(place.dataset.chart).textContent);
    const columns = given.stacked ? stack(given.columns) : given.columns;
    const bars = given.stacked ? uPlot.paths.bars({ size: [0.8, 60], align: 1 }) : undefined;
    const axis = { stroke: ink("--body-fg"), grid: { stroke: ink("--hairline-color") }, ticks: { stroke: ink("--hairline-color") } };
    const series = given.series.map((one, i) => ({
      label: one.label,
      stroke: color(one.tone),
      fill: given.stacked ? color(one.tone) : undefined,
      width: given.stacked ? 0 : 2,
      paths: bars,
      points: { show: !given.stacked },
      value: (_, __, ___, at) => (at === null ? "–" : given.columns[i][at] + given.unit),
    }));
    // in the page's time zone, as the table says it, whatever zone the reader's machine is in
    const said = (options) => {
      const format = new Intl.DateTimeFormat("en-GB", { ...options, timeZone: given.zone });
      return (seconds) => format.format(new Date(seconds * 1000));
    };
    const clock = said({ hour: "2-digit", minute: "2-digit" });
    const day = said({ day: "numeric", month: "short" });
    const times = (_, ticks, __, ___, apart) =>
      ticks.map((tick, i) => {
        const isNewDay = i === 0 || day(tick) !== day(ticks[i - 1]);
        return apart >= 86400 ? day(tick) : isNewDay ? `${clock(tick)}\n${day(tick)}` : clock(tick);
      });
    const last = given.times[given.times.length - 1];
    const span = given.stacked ? [given.times[0], last + given.step] : [given.times[0], Math.max(last, given.times[0] + given.step)];
    // the highest stack is drawn first, so that the lower ones stay in sight
    const order = given.stacked ? [...series.keys()].reverse() : [...series.keys()];
    const plot = new uPlot(
      {
        width: place.clientWidth,
        height: 240,
        series: [{ value: (_, at) => (at === null ? "–" : `${day(at)} ${clock(at)}`) }, ...order.map((i) => series[i])],
        axes: [{ ...axis, values: times }, { ...axis, size: 60, values: (_, ticks) => ticks.map((tick) => tick + given.unit) }],
        scales: { x: { range: () => span }, y: { range: (_, __, max) => [0, Math.max(max, given.stacked ? 1 : 0.01) * 1.05] } },
        legend: { live: true },
      },
      [given.times, ...order.map((i) => columns[i])],
      place,
    );
    drawn.push([place, plot]);
  };

  const drawAll = () => {
    drawn.splice(0).forEach(([, plot]) => plot.destroy());
    document.querySelectorAll(".fx-chart").forEach(draw);
  };

  drawAll();
  addEventListener("resize", () => drawn.forEach(([place, plot]) => plot.setSize({ width: place.clientWidth, height: 240 })));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  new MutationObserver(drawAll).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
})();
