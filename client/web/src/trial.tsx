// The page of a trial: why it was tried, what came of it.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { call, requestId, type Json } from "./api";
import { mainMetric } from "./metrics";
import { short, type Figure, type Layer } from "./figure";
import { curveOf } from "./figures";
import { deviationOf } from "./insight_figures";
import { Action, Failure, href, Plot, Section, State, studyHref, time, useLoaded } from "./parts";

/** Returns a text whose numbers have as many digits as one reads. */
const readable = (sentence: string): string => sentence.replace(/-?\d+\.\d{6,}(e[+-]?\d+)?/g, (digits) => short(Number(digits))).replace(/, knowing the events up to seq \d+/, "").replace(/^origin: \w+: /, "");
// Said by the page itself, beside the setting and below.
const isTold = (sentence: string): boolean => /^(result:|the prediction was off)/.test(sentence);

const text = (value: unknown): string => (typeof value === "number" ? short(value) : typeof value === "string" ? value : JSON.stringify(value));

function Pairs({ of, caption }: { of: [string, string][]; caption: string }): JSX.Element {
  return <table class="pairs"><caption>{caption}</caption><tbody>{of.map(([k, v]) => <tr key={k}><th scope="row">{k}</th><td>{v}</td></tr>)}</tbody></table>;
}

function gradientFigure(trial: Json, space: Json[]): Figure | null {
  const full = trial["finalMeasurement"]?.gradient?.full?.values as number[] | undefined;
  if (full === undefined) return null;
  const names: string[] = [];
  for (const p of space) {
    if (!p["float"] || p["float"].step !== undefined) continue;
    for (let i = 0; i < Number(p["count"] ?? 1); ++i) names.push(p["count"] === undefined ? p["name"] : `${p["name"]}[${i}]`);
  }
  const shown = full.map((value, i) => ({ value: Number(value), name: names[i] ?? String(i) })).sort((a, b) => Math.abs(b.value) - Math.abs(a.value)).slice(0, 30);
  const y = shown.map((_, i) => shown.length - 1 - i);
  const layer: Layer = { mark: "boxes", role: "gradient", name: "slope", x: shown.map((s) => Math.min(0, s.value)), x2: shown.map((s) => Math.max(0, s.value)), y: y.map((v) => v - 0.3), y2: y.map((v) => v + 0.3) };
  return {
    kind: "gradient", title: "Gradient", columns: 1,
    caption: `The derivative by each parameter, in its own units${trial["gradientSetAside"] ? "; it was set aside, because the gradients of its worker contradict the losses" : ""}.`,
    panels: [{ x: { label: "derivative" }, y: { label: "", min: -0.6, max: shown.length - 0.4, ticks: shown.map((s, i) => ({ at: y[i]!, text: s.name })) }, layers: [layer] }],
  };
}

function curveFigure(trial: Json, metric: string): Figure | null {
  const points = curveOf(trial, metric), last = points.x[points.x.length - 1];
  if (last === undefined) return null;
  const layers: Layer[] = [{ mark: "line", role: "incumbent", name: metric, ...points }];
  if (points.x.length === 1) layers.push({ mark: "points", role: "incumbent", name: "", ...points });
  // Where it paused, and went on when it was promoted.
  const pauses = ((trial["attempts"] ?? []) as Json[]).map((a) => Number(a["startStep"] ?? 0)).filter((step) => step > 0 && step < last);
  const at = pauses.map((step) => points.x.indexOf(step)).filter((i) => i >= 0);
  if (at.length > 0) layers.push({ mark: "points", role: "open", name: "paused here, and went on", x: at.map((i) => points.x[i]!), y: at.map((i) => points.y[i]!) });
  return { kind: "curve", title: "Learning curve", caption: `${points.x.length} ${points.x.length === 1 ? "point" : "points"}, from step ${points.x[0]} to step ${last}${pauses.length > 0 ? `, in ${pauses.length + 1} attempts` : ""}.`, columns: 1, panels: [{ x: { label: "step", whole: true }, y: { label: metric }, layers }] };
}

/** Returns the seconds that the attempts of a trial took together, as the table of trials has them; NaN while one runs. */
function secondsOf(trial: Json): number {
  let sum = 0;
  for (const attempt of (trial["attempts"] ?? []) as Json[]) sum += (new Date(attempt["endTime"] ?? NaN).getTime() - new Date(attempt["startTime"]).getTime()) / 1000;
  return sum;
}

/** `recommended`: the trial that is recommended beside the best; 0: none is. */
export function TrialPage({ study, number, recommended }: { study: Json; number: number; recommended: number }): JSX.Element {
  const parent = String(study["name"]), name = `${parent}/trials/${number}`;
  const [note, setNote] = useState("");
  const loaded = useLoaded(async (signal) => {
    const [trial, why, events] = await Promise.all([
      call("StudyService/GetTrial", { name, withMeasurements: true, maxMeasurements: 2000 }, signal),
      call("StudyService/ExplainTrial", { name }, signal),
      call("StudyService/ListEvents", { name, pageSize: 50 }, signal)]);
    return { trial, why, events };
  }, [name, String(study["updateSeq"])]);
  if (loaded.error !== null && loaded.error.code === "not_found") {
    const last = Object.values((study["trials"] ?? {}) as Record<string, unknown>).reduce((sum: number, n) => sum + Number(n), 0);
    return <div class="failure" role="alert"><p>There is no trial {number} in this study{last > 0 ? `, which has ${last}` : ", which has none yet"}: {loaded.error.message}.</p><p><a href={studyHref(parent, "trials")}>Its trials</a>, <a href={href("studies")}>all studies</a></p></div>;
  }
  if (loaded.error !== null) return <Failure error={loaded.error} again={loaded.again} />;
  if (loaded.value === null) return <p role="status">… loading</p>;
  const { trial, why, events } = loaded.value;
  const metric = mainMetric(study);
  const result = trial["finalMeasurement"]?.metrics ?? {};
  const provenance = trial["provenance"] ?? {};
  const open = ["RUNNING", "PENDING", "PAUSED"].includes(trial["state"]);
  const gradient = gradientFigure(trial, study["spec"].space as Json[]), curve = curveFigure(trial, metric);
  const link = (n: unknown) => <a href={studyHref(parent, "trials", String(n))}>trial {String(n)}</a>;
  const came = result[metric], seconds = secondsOf(trial), details = (provenance["details"] ?? {}) as Json;
  const mean = Number(why["predicted"]?.mean ?? 0), sd = Number(why["predicted"]?.sd ?? 0), deviation = deviationOf(details, sd);
  const surprise = why["surprise"] === undefined ? NaN : deviation > sd ? (Number(came) - mean) / deviation : Number(why["surprise"]);
  const given = (trial["parameters"] ?? {}) as Json, order = new Map(((study["spec"].space ?? []) as Json[]).map((p, i) => [String(p["name"]), i]));
  const settings = Object.entries(given).sort(([a], [b]) => (order.get(a) ?? 0) - (order.get(b) ?? 0)).map(([k, v]) => [k, text(v)] as [string, string]);
  return (
    <article>
      <div class="title">
        <h1>Trial {number} <State name={String(trial["state"])} />{Number(study["bestTrial"] ?? 0) === number && <span class="mark"> best</span>}{recommended === number && <span class="mark" title="results are noisy: the trial whose setting is expected to be the best"> recommended</span>}{trial["feasible"] === false && <span class="bad"> beyond a bound</span>}</h1>
        <nav aria-label="Other trials">{number > 1 && link(number - 1)} {link(number + 1)}</nav>
      </div>
      <p class="actions">
        {trial["state"] === "RUNNING" && <Action label="Stop, keep its value" run={() => call("StudyService/StopTrial", { name }).then(loaded.again)} />}
        {open && <Action label="Cancel" confirm="Really cancel?" run={() => call("StudyService/CancelTrial", { name }).then(loaded.again)} />}
        {(trial["state"] === "FAILED" || trial["state"] === "CANCELLED") && <Action label="Try again" run={() => call("StudyService/RetryTrials", { parent, numbers: [number], requestId: requestId() }).then(loaded.again)} />}
        {!open && trial["state"] !== "FAILED" && trial["state"] !== "CANCELLED" && <Action label="Try this setting again" run={() => call("StudyService/EnqueueTrials", { parent, trials: [{ parameters: trial["parameters"] }], requestId: requestId() })} />}
      </p>
      {trial["failure"] && <div class="failure"><p><strong>{trial["failure"].reason}</strong></p><pre tabIndex={0}>{trial["failure"].message}</pre></div>}
      <div class="grid">
        <Pairs caption="Setting" of={settings} />
        <Pairs caption="Result" of={[...Object.entries(result).map(([k, v]) => [k, text(v)] as [string, string]), ...((trial["attempts"] ?? []).length > 0 && Number.isFinite(seconds) ? [["seconds of all attempts", text(seconds)] as [string, string]] : []),
          ...(trial["finalMeasurement"]?.elapsedSeconds !== undefined ? [["seconds that the last attempt reported", text(trial["finalMeasurement"].elapsedSeconds)] as [string, string]] : [])]} />
      </div>
      <Section title="Why this point">
        {((why["sentences"] ?? []) as string[]).filter((sentence) => !isTold(sentence)).map((sentence) => <p key={sentence}>{readable(sentence)}</p>)}
        {why["predicted"] && (
          <p>The model expected <strong>{short(mean)} ± {short(sd)}</strong>{deviation > sd && <>, where one result is off by {short(Number(details["noise_sd"]))}</>}
            {came !== undefined && <> and <strong>{short(Number(came))}</strong> came</>}
            {Number.isFinite(surprise) && <>, {short(Math.abs(surprise))} deviations{deviation > sd && " of such a result"} {surprise > 0 ? "above" : "below"} the expectation</>}.</p>
        )}
        <details><summary>All that the search noted, for experts</summary><Pairs caption="All that the search noted" of={[["designer", text(provenance["designer"] ?? "")], ["origin", text(provenance["origin"] ?? "")], ...(provenance["askIndex"] !== undefined ? [["number of the suggestion", text(provenance["askIndex"])] as [string, string]] : []), ["made in knowledge of the log up to event", text(provenance["prefixSeq"] ?? "0")], ["seed of the study", text(study["spec"].seed ?? "0")],
          ...Object.entries(provenance["details"] ?? {}).map(([k, v]) => [k, text(Number(v))] as [string, string])]} /></details>
      </Section>
      {(trial["retryOf"] || trial["retriedBy"] || provenance["warmStart"] || trial["promotions"]) && (
        <Section title="Lineage"><ul>
          {Number(trial["retryOf"] ?? 0) > 0 && <li>takes the place of {link(trial["retryOf"])}</li>}
          {Number(trial["retriedBy"] ?? 0) > 0 && <li>its place was taken by {link(trial["retriedBy"])}</li>}
          {Number(provenance["warmStart"] ?? 0) > 0 && <li>starts from the model of {link(provenance["warmStart"])}</li>}
          {((trial["promotions"] ?? []) as Json[]).map((p, i) => <li key={i}>went on to step {String(p["resource"] ?? "")}</li>)}
        </ul></Section>
      )}
      {curve && <Section title="Learning curve"><Plot figure={curve} height={260} /></Section>}
      {gradient && <Section title="Gradient"><Plot figure={gradient} height={60 + 26 * (gradient.panels[0]!.y.ticks?.length ?? 1)} /></Section>}
      <Section title="Attempts">
        <div class="scroll" tabIndex={0} role="region" aria-label="Attempts"><table>
          <thead><tr>{["number", "worker", "outcome", "began", "ended", "reason"].map((h) => <th key={h} scope="col">{h}</th>)}</tr></thead>
          <tbody>{((trial["attempts"] ?? []) as Json[]).map((a) => <tr key={a["number"]}><td>{a["number"]}</td><td>{a["worker"]}</td><td><State name={String(a["outcome"])} /></td><td class="one">{time(a["startTime"])}</td><td class="one">{time(a["endTime"])}</td><td class="wraps">{a["failure"]?.reason}</td></tr>)}</tbody>
        </table></div>
        {((trial["attempts"] ?? []) as Json[]).filter((a) => a["outputTail"]).map((a) => <details key={a["number"]}><summary>Output of attempt {a["number"]}</summary><pre tabIndex={0}>{a["outputTail"]}</pre></details>)}
      </Section>
      <Section title="Notes">
        {Object.keys(trial["attributes"] ?? {}).length > 0 && <Pairs caption="Notes of users" of={Object.entries(trial["attributes"]).map(([k, v]) => [k, String(v)] as [string, string])} />}
        <label>Note <input value={note} onInput={(e) => setNote(e.currentTarget.value)} /></label>
        <Action label="Keep it" run={async () => { await call("StudyService/SetAttributes", { name, attributes: { note } }); loaded.again(); }} />
      </Section>
      <Section title="Events"><ol class="events" reversed>{((events["events"] ?? []) as Json[]).map((e) => <li key={e["seq"]}><time>{time(e["time"])}</time> {String(e["type"]).toLowerCase().replace(/_/g, " ")} {e["actor"] && `by ${e["actor"]}`} {readable(String(e["detail"] ?? ""))}</li>)}</ol></Section>
    </article>
  );
}
