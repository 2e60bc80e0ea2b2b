// Figures of the page, made of a table that is written by hand. client/plot has the same rules: figure_test.cc.
//   node figures_test.mjs SOURCE_DIR PACKAGES
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import path from "node:path";

const [source, packages] = process.argv.slice(2);
const { build } = createRequire(pathToFileURL(path.join(packages, "package.json")))("esbuild");
const nothing = { name: "nothing", setup: (b) => {
  b.onResolve({ filter: /^uplot$/ }, () => ({ path: "uplot", namespace: "nothing" }));
  b.onLoad({ filter: /.*/, namespace: "nothing" }, () => ({ contents: "export default class {}" }));
} };
async function bundled(file) {
  const { outputFiles } = await build({ entryPoints: [path.join(source, "client/web/src", file)], bundle: true, write: false, format: "esm", plugins: [nothing] });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
}
const figures = await bundled("figures.ts"), { logTicks } = await bundled("figure.ts");

/** A study of one parameter that minimizes y, with a bound on another metric. */
function subject(values, feasible) {
  const numbers = { "metrics.y": values, "params.x": values.map((_, i) => i / values.length) };
  const table = {
    rows: values.length, version: 1,
    number: (column) => Float64Array.from(numbers[column] ?? values.map(() => NaN)),
    has: () => true, isText: (column) => column === "feasible",
    word: (column, row) => (column === "feasible" ? String(feasible[row]) : ""),
    state: () => "COMPLETE", exists: () => true,
  };
  const spec = { space: [{ name: "x", float: { min: 0, max: 1 } }], metrics: [{ name: "y", goal: "MINIMIZE" }, { name: "ms", atMost: 20 }] };
  return { study: { spec }, table, metric: "y" };
}
const layer = (figure, role) => figure.panels[0].layers.find((l) => l.role === role);

{
  const s = subject([3, 1, 2, 0.5], [true, false, true, false]);
  const history = figures.history(s);
  assert.deepEqual([...layer(history, "infeasible").trials], [2, 4], "trials beyond a bound have a mark of their own");
  assert.deepEqual([...layer(history, "trial").trials], [1, 3]);
  assert.deepEqual([...layer(history, "incumbent").x], [1, 3, 4], "the line goes on to the last trial");
  assert.deepEqual([...layer(history, "incumbent").y], [3, 2, 2]);
  assert.equal(history.caption, "4 trials, 2 beyond a bound; the best value is 2 in trial 3.");
  const axes = figures.coordinates(s, 12);
  assert.deepEqual([...layer(figures.slice(s, axes[0], null, []), "infeasible").trials], [2, 4]);
  const parallel = figures.parallel(s, axes);
  assert.deepEqual([...new Set(layer(parallel, "infeasible").trials)], [4, 2]);
  assert.match(parallel.caption, /Those of trials beyond a bound are dashed/);
  assert.ok(parallel.panels[0].layers.filter((l) => l.role === "shaded").every((l) => l.trials.every((t) => t === 1 || t === 3)));
}
{
  const history = figures.history(subject([3, 1], [false, false]));
  assert.equal(history.caption, "2 trials, 2 beyond a bound; no trial is feasible, so that none is the best.");
  assert.equal(layer(history, "incumbent"), undefined);
}
{
  const values = [1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 90, 91];
  const history = figures.history(subject(values, values.map((v) => v > 50)));
  assert.deepEqual([...layer(history, "trial").trials], [8, 9], "the frame shows those within the bounds");
  assert.equal(layer(history, "outside"), undefined);
  assert.ok(history.panels[0].y.min < 1);
}
{
  assert.deepEqual(logTicks(16, 512, 12), [20, 50, 100, 200, 500], "a logarithmic axis has round ticks, wherever it begins");
  assert.deepEqual(logTicks(16, 512, 4), [30, 100, 300]);
  assert.deepEqual(logTicks(1e-5, 0.1, 6), [1e-5, 1e-4, 1e-3, 1e-2, 1e-1]);
  assert.deepEqual(logTicks(1e-5, 0.1, 3), [1e-4, 1e-2]);
  assert.deepEqual(logTicks(100, 130, 6), [100, 105, 110, 115, 120, 125, 130], "a short one has equal distances");
  for (const [low, high] of [[1e-300, 1e300], [5e-324, 1.7e308], [1, 1.0000001], [2, 9], [0.011, 0.099]]) {
    for (const most of [1, 2, 5, 20]) {
      const ticks = logTicks(low, high, most);
      assert.ok(ticks.length >= 1 && ticks.length <= Math.max(3, most + 2), `${low} to ${high}: ${ticks}`);
      assert.ok(ticks.every((v) => v >= low * 0.999999 && v <= high * 1.000001), `${low} to ${high}: ${ticks}`);
    }
  }
}
{
  const values = [3, 1, 2, 0.5], s = subject(values, values.map(() => true));
  const [x] = figures.coordinates(s, 12);
  assert.match(figures.contour(s, x, x, null, true).caption, /until the model has answered/);
  assert.match(figures.contour(s, x, x, null, false).caption, /since there is no model/);
}
console.log("figures keep to the bounds");
