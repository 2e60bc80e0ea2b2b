// What the search of a study expected, learnt, followed and can rule out: sections of the study's page that only some algorithms have.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call, type Json } from "./api";
import { short } from "./figure";
import type { Subject } from "./figures";
import * as figures from "./insight_figures";
import { mainMetric, objectivesOf } from "./metrics";
import { Action, Plot, Section, useLoaded, useNear, useTurn } from "./parts";

const SECONDS = 15; // Time between two looks at trials in full.
const MOST_TRIALS = 500;

/** Returns the newest trials with results in full, oldest first, once `near`. */
function useTrials(s: Subject, near: boolean, version: number, filter: string): Json[] | null {
  const [trials, setTrials] = useState<Json[] | null>(null);
  const turn = useTurn(version, SECONDS);
  useEffect(() => {
    if (!near) return;
    const stop = new AbortController();
    call("StudyService/ListTrials", { parent: s.study["name"], pageSize: MOST_TRIALS, states: ["COMPLETE", "PRUNED"], filter, orderBy: "number desc" }, stop.signal).then(
      (answer) => setTrials(((answer["trials"] ?? []) as Json[]).reverse()),
      () => undefined,
    );
    return () => stop.abort();
  }, [near, turn, filter]);
  return trials;
}

const algorithmOf = (study: Json): string => Object.keys(study["resolvedAlgorithm"] ?? study["spec"].algorithm ?? {})[0] ?? "auto";

// Parts of designers, as a column of the table names them, that expect something of a trial, or descend.
const MODELS = ["acq", "trust_region", "quasi_newton"], DESCENTS = ["hoag", "hoag_start"];
const suggested = (s: Subject, parts: string[]): boolean => s.table.wordsIn("origin").some((word) => parts.includes(word));

interface Shown { s: Subject; version: number; open: (trial: number) => void }

function Expected({ s, version, open }: Shown): JSX.Element {
  const [box, near] = useNear();
  const trials = useTrials(s, near, version, "");
  const figure = trials === null ? null : figures.expected(s, trials);
  return (
    <div ref={box}>
      {trials === null ? <div style={{ minHeight: 340 }} /> : figure === null ? <p>No trial with a result was suggested by a model of {s.metric} yet.</p> : <Plot figure={figure} height={340} onTrial={open} />}
    </div>
  );
}

function Path({ s, version, open }: Shown): JSX.Element {
  const [box, near] = useNear();
  const trials = useTrials(s, near, version, "");
  return (
    <div ref={box} class="grid">
      {trials !== null && figures.gradientPath(s, trials).map((figure) => <div key={figure.kind}><Plot figure={figure} height={260} onTrial={open} /></div>)}
    </div>
  );
}

function Stages({ name, metric, version }: { name: string; metric: string; version: number }): JSX.Element {
  const turn = useTurn(version, SECONDS);
  const { value, error } = useLoaded((signal) => call("StudyService/GetStudy", { name, harmonicaStages: true }, signal), [name, turn]);
  const stages = (value?.["harmonicaStages"] ?? []) as Json[], never = (value?.["parametersNeverSelected"] ?? []) as string[];
  if (value === null) return <p>{error?.message ?? "…"}</p>;
  if (stages.length === 0) return <p>The first stage is not over yet.</p>;
  const better = (term: Json) => String(term["betterValues"] || (((term["factors"] ?? []) as Json[]).length === 2 ? (Number(term["betterSign"]) > 0 ? "alike" : "different") : `product ${Number(term["betterSign"]) > 0 ? "+1" : "-1"}`));
  const percent = (share: unknown) => `${Math.round(100 * Number(share ?? 0))} %`;
  return (
    <>
      {stages.map((stage, i) => {
        const terms = (stage["terms"] ?? []) as Json[];
        return (
          <div key={i}>
            <Plot figure={figures.polynomial(stage, i + 1, metric)} height={90 + 26 * Math.min(20, Math.max(1, terms.length))} />
            {((stage["warnings"] ?? []) as string[]).map((w) => <p key={w} class="bad">{w}</p>)}
            {terms.length > 0 && (
              <details><summary>Terms of stage {i + 1}, and how often they are found again</summary>
                <div class="scroll" tabIndex={0} role="region" aria-label={`Terms of stage ${i + 1}`}><table>
                  <thead><tr>{["term", "weight", "better", "variance", "found again"].map((h) => <th key={h} scope="col">{h}</th>)}</tr></thead>
                  <tbody>{terms.map((t, k) => <tr key={k}><td>{((t["factors"] ?? []) as Json[]).map((f) => String(f["name"])).join(" × ")}</td><td class="number">{short(Number(t["weight"] ?? 0))}</td><td>{better(t)}</td><td class="number">{percent(t["varianceShare"])}</td><td class="number">{t["bootstrapFrequency"] === undefined ? "" : percent(t["bootstrapFrequency"])}</td></tr>)}</tbody>
                </table></div>
              </details>
            )}
            {((stage["restrictions"] ?? []) as Json[]).map((r, k) => <p key={k}>Handed on, as fixed in the next stage: {Object.entries(r["values"] ?? {}).map(([p, v]) => `${p} = ${String(v)}`).join(", ")} ({short(Number(r["value"] ?? 0))})</p>)}
          </div>
        );
      })}
      {never.length > 0 && <p>No stage selected {never.slice(0, 40).join(", ")}{never.length > 40 ? ` and ${never.length - 40} others` : ""}.</p>}
    </>
  );
}

/** What the results rule out, under a premise that the sentence has. */
function RuledOut({ name, metric, bound }: { name: string; metric: string; bound: boolean }): JSX.Element {
  const [epsilon, setEpsilon] = useState("0.01"), [slope, setSlope] = useState(""), [found, setFound] = useState<Json | null>(null);
  const ask = async () => {
    const study = await call("StudyService/GetStudy", { name, certificate: { epsilon: Number(epsilon), ...(slope === "" ? {} : { lipschitz: Number(slope) }) } });
    setFound(study["certificate"] ?? null);
    if (study["certificate"] === undefined) throw new Error("the algorithm has no bound of its own: say how fast the metric changes at most");
  };
  const number = (field: string) => short(Number(found?.[field] ?? 0));
  return (
    <details><summary>What the results rule out</summary>
      <p class="filters"><label>Values better than the best by more than <input class="short" value={epsilon} onInput={(e) => setEpsilon(e.currentTarget.value)} /></label>
        <label>if it nowhere changes by more than <input class="short" value={slope} placeholder={bound ? "as found" : ""} onInput={(e) => setSlope(e.currentTarget.value)} /> from one end of a parameter's range to the other</label> <Action label="Work it out" run={ask} /></p>
      {found !== null && <p role="status">About {(100 * Number(found["excludedShare"] ?? 0)).toFixed(1)} % (± {(200 * Number(found["standardError"] ?? 0)).toFixed(1)}) of the space cannot hold a {metric} better than {number("bestValue")} by more than {number("epsilon")}, provided that {metric} nowhere changes by more than {number("lipschitz")} from one end of a parameter's range to the other. The steepest slope between two of {found["results"] ?? 0} results is {number("steepestSlope")}. No result can prove that premise.</p>}
    </details>
  );
}

/** Workers whose gradients contradict their losses. */
export function SetAside({ study }: { study: Json }): JSX.Element | null {
  const aside = (study["gradientsSetAside"] ?? []) as Json[];
  if (aside.length === 0) return null;
  return <p class="away">Gradients are set aside, because they contradict the losses reported with them: {aside.map((a) => `${a["trials"]} of ${a["worker"]}`).join(", ")}.</p>;
}

/** Sections for the algorithm of a study. */
export function Insights({ s, version, open }: Shown): JSX.Element {
  const name = String(s.study["name"]), kind = algorithmOf(s.study), main = s.metric === mainMetric(s.study);
  return (
    <>
      {main && suggested(s, DESCENTS) && <Section title="Along the gradients"><Path s={s} version={version} open={open} /></Section>}
      {kind === "harmonica" && <Section title="What the stages learnt"><Stages name={name} metric={s.metric} version={version} /></Section>}
      {(main || objectivesOf(s.study).length > 1) && suggested(s, MODELS) && <Section title="Expected and came"><Expected s={s} version={version} open={open} /></Section>}
      {main && s.table.rows > 1 && <RuledOut name={name} metric={s.metric} bound={kind === "lbo"} />}
    </>
  );
}
