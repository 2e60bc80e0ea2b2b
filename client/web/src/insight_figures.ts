// Figures of what a search expected, learnt and followed.
import type { Json } from "./api";
import type { Figure, Layer } from "./figure";
import { short } from "./figure";
import { maximize, metricAxis, type Subject } from "./figures";

const MOST_BARS = 40;

const figure = (kind: string, title: string, caption: string, panels: Figure["panels"]): Figure => ({ kind, title, caption, columns: 1, panels });

const valueOf = (trial: Json, metric: string): number => Number(trial["finalMeasurement"]?.metrics?.[metric] ?? NaN);

/** Returns the standard deviation of a result around what the model expected of it, given that of the expectation alone: where results
 * are noisy that of one result comes on top. `details`: of the trial's provenance. */
export function deviationOf(details: Json, sd: number): number {
  const noise = details["predicted_mean"] === undefined ? 0 : Number(details["noise_sd"] ?? 0);
  return noise > 0 && Number.isFinite(noise) ? Math.hypot(sd, noise) : sd;
}

/** What the model expected of each trial before it was tried, and what came. Null: no trial was expected anything of. */
export function expected(s: Subject, trials: Json[]): Figure | null {
  const x: number[] = [], y: number[] = [], low: number[] = [], high: number[] = [], numbers: number[] = [];
  let inside = 0, noisy = false;
  for (const trial of trials) {
    const details = (trial["provenance"]?.details ?? {}) as Json;
    // Of several metrics each has its own model.
    const mean = Number(details["predicted_mean"] ?? details[`mean.${s.metric}`] ?? NaN), of = Number(details["predicted_sd"] ?? details[`sd.${s.metric}`] ?? NaN), came = valueOf(trial, s.metric);
    if (!Number.isFinite(mean) || !Number.isFinite(of) || !Number.isFinite(came)) continue;
    const sd = deviationOf(details, of);
    noisy ||= sd > of;
    x.push(mean);
    y.push(came);
    low.push(mean - 2 * sd);
    high.push(mean + 2 * sd);
    numbers.push(Number(trial["number"]));
    if (Math.abs(came - mean) <= 2 * sd) ++inside;
  }
  if (x.length === 0) return null;
  // What came has an axis of its own: a model that expected far more or less would press it into a line.
  const across = metricAxis("", [...x, ...y], maximize(s)), up = metricAxis("", y, maximize(s));
  const ends = [Math.max(across.min!, up.min!), Math.min(across.max!, up.max!)];
  // More bars would lie over each other; the newest say how well the model judges itself now.
  const newest = numbers.map((n, i) => ({ n, i })).sort((a, b) => b.n - a.n).slice(0, MOST_BARS).map(({ i }) => i);
  const bars = (of: number[]) => newest.map((i) => of[i]!);
  const layers: Layer[] = [
    { mark: "line", role: "reference", name: "as expected", x: ends, y: ends },
    { mark: "whiskers", role: "model", name: numbers.length > MOST_BARS ? `two deviations, of the newest ${MOST_BARS}` : "two deviations", x: bars(low), x2: bars(high), y: bars(y) },
    { mark: "points", role: "trial", name: "a trial", x, y, trials: numbers },
  ];
  const share = Math.round((100 * inside) / x.length);
  return figure("expected", "Expected and came", `${inside} of ${x.length} values (${share} %) came within two deviations of what the model had expected before; about 95 % do where it judges itself well.` + (noisy ? " Results are noisy, so that a deviation is that of the expectation and that of one result together." : "") + (x.length >= 20 && share < 80 ? " This one is too sure of itself." : "") +
    (trials.length > x.length ? " Trials that no model expected anything of are not here: the first ones, and steps of climbs." : ""),
    [{ x: { ...across, label: `${s.metric} that was expected` }, y: { ...up, label: `${s.metric} that came` }, layers }]);
}

/** The polynomial that a stage of Harmonica learnt: its heaviest terms. */
export function polynomial(stage: Json, number: number, metric: string): Figure {
  const terms = ((stage["terms"] ?? []) as Json[]).slice(0, 20);
  const names = terms.map((t) => ((t["factors"] ?? []) as Json[]).map((f) => String(f["name"])).join(" × ") || "1");
  const weight = terms.map((t) => Number(t["weight"] ?? 0)), y = terms.map((_, i) => terms.length - 1 - i);
  const percent = (field: string) => `${Math.max(0, Math.round(100 * Number(stage[field] ?? 0)))} %`;
  const more = ((stage["terms"] ?? []) as Json[]).length - terms.length;
  return figure("polynomial", `Stage ${number}`,
    `${metric} = ${short(Number(stage["intercept"] ?? 0))} and these terms${more > 0 ? `, and ${more} smaller ones` : ""}, each its weight times factors of +1 or -1. It explains ${percent("r2")} of the variance of ${stage["samples"] ?? 0} samples, ${percent("crossValidatedR2")} of samples that it has not seen${stage["believed"] ? "" : ": too little to be believed, so that it fixes nothing"}.`,
    [{
      x: { label: `weight, in units of ${metric}` },
      y: { label: "", min: -0.6, max: Math.max(1, terms.length) - 0.4, ticks: names.map((text, i) => ({ at: y[i]!, text })) },
      layers: [{ mark: "boxes", role: "model", name: "", x: weight.map((w) => Math.min(0, w)), x2: weight.map((w) => Math.max(0, w)), y: y.map((v) => v - 0.3), y2: y.map((v) => v + 0.3) }],
      ...(terms.length === 0 ? { empty: "no term was found" } : {}),
    }]);
}

interface Scaled { name: string; share: (value: number) => number; slope: (value: number) => number }

// The parameters in which gradients are, in order, with their scale: `slope` is the parameter's change for one side of the search.
function scaled(space: Json[]): { parameter: Json; of: Scaled }[] {
  return space.filter((p) => p["float"] && p["float"].step === undefined).map((p) => {
    const low = Number(p["float"].min ?? 0), high = Number(p["float"].max ?? 0), scale = String(p["float"].scale ?? "LINEAR");
    const logit = (v: number) => Math.log(v / (1 - v));
    const [to, slope] = scale === "LOG" ? [Math.log, (v: number) => v * Math.log(high / low)] as const
      : scale === "LOGIT" ? [logit, (v: number) => v * (1 - v) * (logit(high) - logit(low))] as const : [(v: number) => v, () => high - low] as const;
    return { parameter: p, of: { name: String(p["displayName"] || p["name"]), share: (v: number) => (to(v) - to(low)) / (to(high) - to(low)), slope } };
  });
}

/** The way of a search along gradients: the metric, the size of the gradient, and the parameters, by step. */
export function gradientPath(s: Subject, trials: Json[]): Figure[] {
  const space = scaled((s.study["spec"].space ?? []) as Json[]);
  const lines = new Map<string, { x: number[]; y: number[] }>();
  const values: number[] = [], norms: number[] = [], numbers: number[] = [], normed: number[] = [];
  const chainOf = (trial: Json) => Number(trial["provenance"]?.details?.chain ?? 0);
  const chains = new Set(trials.map(chainOf)).size;
  // One descent after the other, with a gap between their lines.
  const ordered = [...trials].sort((a, b) => chainOf(a) - chainOf(b) || Number(a["number"]) - Number(b["number"]));
  let before = NaN;
  for (const trial of ordered) {
    const number = Number(trial["number"]), value = valueOf(trial, s.metric);
    if (!Number.isFinite(value)) continue;
    if (!Number.isNaN(before) && chainOf(trial) !== before) for (const list of [numbers, values, norms, normed, ...[...lines.values()].flatMap(({ x, y }) => [x, y])]) list.push(NaN);
    before = chainOf(trial);
    numbers.push(number);
    values.push(value);
    const full = (trial["finalMeasurement"]?.gradient?.full?.values ?? []) as unknown[];
    let sum = 0, at = 0;
    for (const { parameter, of } of space) {
      const given: unknown = trial["parameters"]?.[parameter["name"]];
      const all = (Array.isArray(given) ? given : [given]).map(Number);
      for (const v of all) if (at < full.length) sum += (Number(full[at++]) * of.slope(v)) ** 2;
      const shown = Array.isArray(given) ? [[`median of ${of.name}`, [...all].sort((a, b) => a - b)[all.length >> 1]!] as const] : [[of.name, all[0]!] as const];
      for (const [name, v] of shown) {
        if (lines.size >= 8 && !lines.has(name)) continue;
        const line = lines.get(name) ?? { x: [], y: [] };
        lines.set(name, line);
        line.x.push(number);
        line.y.push(of.share(v));
      }
    }
    if (full.length > 0 && Number.isFinite(sum) && sum > 0) {
      normed.push(number);
      norms.push(Math.sqrt(sum));
    }
  }
  const steps = { label: "trial", whole: true };
  const line = (name: string, role: Layer["role"], x: number[], y: number[]): Layer[] => [
    { mark: "line", role, name: "", x, y }, { mark: "points", role, name, x, y, trials: x }];
  const all = [...lines].map(([name, { x, y }], i): Layer => ({ mark: "line", role: "shaded", series: i, name: name.slice(0, 30), x, y }));
  const several = chains > 1 ? ` ${chains} descents take turns.` : "";
  const wanting = (empty: boolean, text: string) => (empty ? { empty: text } : {});
  return [
    figure("path_value", `${s.metric} by step`, `The value after each step.${several}`, [{ x: steps, y: metricAxis(s.metric, values, maximize(s)), layers: values.length > 0 ? line("a trial", "incumbent", numbers, values) : [], ...wanting(values.length === 0, "no trial has a value yet") }]),
    figure("path_gradient", "The gradient's size by step", "The length of the gradient where the range of each parameter counts as 1. Near an optimum inside the range it falls to 0.", [{ x: steps, y: { label: "length of the gradient", log: true }, layers: norms.length > 0 ? line("a trial", "gradient", normed, norms) : [], ...wanting(norms.length === 0, "no trial has reported a gradient yet") }]),
    figure("path_parameters", "Parameters by step", `0 is the lower end of a parameter's range, 1 the upper end.${space.length > lines.size ? ` ${lines.size} of ${space.length} parameters are shown.` : ""}`, [{ x: steps, y: { label: "place in the range", min: -0.04, max: 1.04 }, layers: all, ...wanting(all.length === 0, "no trial has a value yet") }]),
  ];
}
