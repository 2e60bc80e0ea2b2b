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
const figures = await bundled("figures.ts"), { distinct, eased, logTicks, place } = await bundled("figure.ts");

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
  const same = ["label number 1 of many", "label number 27 of many", "label number 3"];
  assert.deepEqual(distinct(same, 12), ["…1 of many", "…27 of many", "…3"], "what all names share at their beginning goes first");
  assert.deepEqual(distinct([...same, "loss"], 12), ["…1 of many", "…27 of many", "…3", "loss"], "a short one does not count");
  assert.deepEqual(distinct(["a", "b"], 12), ["a", "b"]);
  assert.deepEqual(distinct(["one long name alone"], 9), ["one …lone"]);
  assert.ok(distinct(["🎻".repeat(30) + "1", "🎻".repeat(30) + "2"], 9).every((text) => [...text].length <= 9));
  assert.deepEqual(distinct(["x".repeat(30), "x".repeat(30)], 9).map((text) => text.length), [2, 2], "names that are equal stay equal, and something of them stays");
}
{
  const huge = [1.7e308, -1.7e308, 1e308, 0], s = subject(huge, huge.map(() => true));
  const history = figures.history(s), { y } = history.panels[0];
  assert.ok(y.min < -1.6e308 && y.max > 1.6e308 && Number.isFinite(y.min) && Number.isFinite(y.max), `from ${y.min} to ${y.max}`);
  assert.deepEqual([...layer(history, "trial").trials], [1, 2, 3, 4], "numbers beyond 1e300 are in the frame");
  assert.ok(Math.abs(place(y, 0) - 0.5) < 0.1 && place(y, 1.7e308) > 0.9);
  const moved = eased(y);
  assert.match(moved.axis.label, / \/ 1e300$/);
  assert.ok(Math.abs(moved.move(1e308) - 1e8) < 1);
}
{
  const near = eased({ label: "y", min: 1000000.001, max: 1000000.009 });
  assert.equal(near.axis.label, "y − 1000000");
  assert.ok(Math.abs(near.move(1000000.005) - 0.005) < 1e-9);
  assert.equal(eased({ label: "y", min: 0.5, max: 0.6 }).move, null);
  assert.equal(eased({ label: "", min: 1e300, max: 1e300 * (1 + 1e-12), ticks: [] }).move, null, "names have no units");
  assert.match(eased({ label: "y", min: 0, max: 5e-320 }).axis.label, /× 1e300$/);
}
{
  const values = [3, 1, 2, 0.5], s = subject(values, values.map(() => true));
  const [x] = figures.coordinates(s, 12);
  assert.match(figures.contour(s, x, x, null, true).caption, /until the model has answered/);
  assert.match(figures.contour(s, x, x, null, false).caption, /since there is no model/);
}
console.log("figures keep to the bounds");
