// Several studies beside each other: how fast they got how good, and in what they differ.
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { call, idOf, type Json } from "./api";
import { Table } from "./columns";
import { bestLine, betterWords, cutWords, edf, sharedAxis, shares, type Subject } from "./figures";
import { short, type Figure, type Layer } from "./figure";
import { aims, mainMetric, objectivesOf } from "./metrics";
import { algorithmOf } from "./words";
import { Failure, Plot, Section, setQuery, studyHref, useLoaded, useNear, useTitle, type Place } from "./parts";
import { useRecommended } from "./recommended";

const MOST = 8;
export const ENDED = ["complete", "pruned", "failed", "cancelled"];

interface Compared { study: Json; table: Table }

const subjectOf = ({ study, table }: Compared): Subject => ({ study, table, metric: mainMetric(study) });
const titleOf = (study: Json): string => String(study["spec"].displayName || idOf(String(study["name"])));

/** Best values so far, by trial or by time, a line for each study. */
function bests(all: Compared[], by: string): Figure {
  const layers: Layer[] = [], values: number[][] = [], subjects = all.map(subjectOf);
  const metrics = new Set(subjects.map((s) => s.metric)).size;
  all.forEach((one, i) => {
    const { study, table } = one, line = bestLine(subjectOf(one));
    const times = table.number("end_time");
    const begin = table.number("start_time").reduce((least, t) => Math.min(least, Number.isFinite(t) ? t : Infinity), Infinity);
    const x = by === "time" ? line.trials.map((n) => (times[n - 1]! - begin) / 60) : line.x;
    values.push(line.y);
    if (x.length > 0) layers.push({ mark: "steps", role: "shaded", series: i, name: titleOf(study).slice(0, 60), x, y: line.y, trials: line.trials });
  });
  const y = all.length === 0 ? { label: "" } : sharedAxis(subjects, values);
  const panel = { x: { label: by === "time" ? "minutes since the first trial began" : "trial", whole: by === "trial" }, y, layers, ...(layers.length === 0 ? { empty: "no trial is complete" } : {}) };
  // What is drawn is said: of several objectives a study has no best trial, but its line is that of the first one.
  const told = all.map((c, i) => {
    const one = objectivesOf(c.study).length > 1 ? `${mainMetric(c.study)}, the first of ${objectivesOf(c.study).length} objectives, ` : metrics > 1 ? `${mainMetric(c.study)} ` : "";
    return `${titleOf(c.study).slice(0, 60)}: ${values[i]!.length === 0 ? "no value" : one + short(values[i]!.at(-1)!)}`;
  });
  const caption = `${told.join("; ")}.${layers.length > 1 ? betterWords(subjects, "y") : ""}${cutWords(y, values.map((v, i) => ({ name: titleOf(all[i]!.study).slice(0, 60), values: v })), "steps")}`;
  return { kind: "compare", title: "Best so far", caption, columns: 1, panels: [panel] };
}

/** How good the trials of each study are, whichever came first. */
function HowGood({ all }: { all: Compared[] }): JSX.Element {
  const [box, near] = useNear(), [figure, setFigure] = useState<Figure | null>(null);
  const versions = all.map((c) => c.table.version).join(" ");
  useEffect(() => {
    let isLeft = false;
    const make = async () => {
      for (const one of all) { // Each sorts its values in a turn of its own, so that the page stays quick.
        if (isLeft) return;
        shares(subjectOf(one));
        await new Promise((resolve) => setTimeout(resolve));
      }
      if (!isLeft) setFigure(edf(all.map((one) => ({ s: subjectOf(one), name: titleOf(one.study).slice(0, 60) }))));
    };
    if (near && all.length > 0) void make();
    return () => { isLeft = true; };
  }, [near, versions]);
  return <div ref={box}>{figure === null ? <div class="faint" style={{ minHeight: 320 }}>loading…</div> : <Plot figure={figure} height={320} />}</div>;
}

/** The best value of a study, and the trial that is recommended beside it. */
function Best({ study, version }: { study: Json; version: number }): JSX.Element {
  const name = String(study["name"]), recommended = useRecommended(name, study, version, true);
  return (
    <td class="number">{study["bestValue"] === undefined ? "" : short(Number(study["bestValue"]))}
      {recommended !== null && <small class="under" title="Results are noisy, so that the best value is luck in part.">recommended: <a href={studyHref(name, "trials", recommended.trial)}>trial {recommended.trial}</a>, {short(recommended.mean)}</small>}
    </td>
  );
}

/** Returns the name of a field as study files have it; keys of labels are users' own words. */
const wordOf = (key: string, path: string): string => (/(^|\.)labels$/.test(path) ? key : key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));

/** Returns the paths of a specification, as texts: "budget.max_trials" → "100". */
function flat(value: unknown, path: string, out: Map<string, string>): Map<string, string> {
  if (Array.isArray(value)) value.forEach((v, i) => flat(v, `${path}[${(v as Json | null)?.["name"] ?? i}]`, out));
  else if (value !== null && typeof value === "object") for (const [k, v] of Object.entries(value)) flat(v, path ? `${path}.${wordOf(k, path)}` : wordOf(k, path), out);
  else out.set(path, String(value));
  return out;
}

function Differences({ all }: { all: Compared[] }): JSX.Element {
  const rows = useMemo(() => {
    const specs = all.map((c) => flat({ ...c.study["spec"], algorithm: c.study["resolvedAlgorithm"] ?? c.study["spec"].algorithm }, "", new Map()));
    const paths = [...new Set(specs.flatMap((s) => [...s.keys()]))].sort();
    return paths.map((path) => [path, ...specs.map((s) => s.get(path) ?? "")]).filter((row) => new Set(row.slice(1)).size > 1)
      // Options that few need, of an algorithm that not all of them have.
      .filter((row) => !(row[0]!.includes(".expert.") && row.slice(1).includes(""))).slice(0, 200);
  }, [all]);
  if (rows.length === 0) return <p>They are stated alike.</p>;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Differences"><table>
      <thead><tr><th scope="col">field</th>{all.map((c) => <th key={c.study["name"]} scope="col"><bdi>{titleOf(c.study)}</bdi></th>)}</tr></thead>
      <tbody>{rows.map((row) => <tr key={row[0]}><th scope="row">{row[0]}</th>{row.slice(1).map((text, i) => <td key={i}>{text}</td>)}</tr>)}</tbody>
    </table></div>
  );
}

export function Compare({ place }: { place: Place }): JSX.Element {
  useTitle("Compare");
  const names = (place.query.get("studies") ?? "").split(",").filter((n) => n !== "").slice(0, MOST);
  const by = place.query.get("by") === "time" ? "time" : "trial";
  const tables = useMemo(() => new Map(names.map((n) => [n, new Table()])), [names.join(",")]);
  const { value, error, again } = useLoaded(async (signal) => Promise.all(names.map(async (name): Promise<Compared> => {
    const table = tables.get(name)!;
    const [study] = await Promise.all([call("StudyService/GetStudy", { name }, signal), table.refresh(name, [], signal)]);
    return { study, table };
  })), [names.join(",")], 3000);
  const figure = useMemo(() => (value === null ? null : bests(value, by)), [value, by]);
  if (error !== null && (value === null || !error.passing)) return <Failure error={error} again={again} />;
  if (value === null || figure === null) return <p role="status">…</p>;
  const metrics = new Set(value.map((c) => aims(c.study)));
  return (
    <>
      <h1>Compare</h1>
      {error && <p class="away" role="status">Connection lost, trying again: {error.message}</p>}
      {metrics.size > 1 && <p class="away">Their metrics differ, so that the lines do not mean the same: {[...metrics].join("; ")}.</p>}
      <p class="filters"><label>By <select value={by} onChange={(e) => setQuery(place, "by", e.currentTarget.value)}><option value="trial">trial</option><option value="time">time</option></select></label></p>
      <h2>Best value so far</h2>
      <Plot figure={figure} height={400} />
      <div class="scroll" tabIndex={0} role="region" aria-label="Studies"><table>
        <thead><tr>{["study", "state", "trials that ended", "best", "algorithm"].map((h) => <th key={h} scope="col">{h}</th>)}</tr></thead>
        <tbody>{value.map(({ study, table }) => (
          <tr key={study["name"]}><td><a href={studyHref(String(study["name"]))}><bdi>{titleOf(study)}</bdi></a></td><td>{study["state"]}</td><td class="number">{ENDED.reduce((sum, n) => sum + Number(study["trials"]?.[n] ?? 0), 0)}</td>
            <Best study={study} version={table.version} /><td>{algorithmOf(study)}</td></tr>))}</tbody>
      </table></div>
      <Section title="How good their trials are"><HowGood all={value} /></Section>
      <Section title="In what they differ"><Differences all={value} /></Section>
    </>
  );
}
