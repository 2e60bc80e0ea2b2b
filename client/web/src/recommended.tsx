// The trial to take where results are noisy, and the best value is luck in part.
import type { JSX } from "preact";
import { call, type Json } from "./api";
import { short } from "./figure";
import { objectivesOf } from "./metrics";
import { useLoaded, useTurn } from "./parts";

const SECONDS = 30; // Time between two questions, each of which takes the coordinator as long as a suggestion.
const ALGORITHMS = ["auto", "bo", "hbo", "lbo", "fobo"]; // Those that recommend a trial.

export interface Recommended { trial: number; mean: number; sd: number; results: number; noise: number }

/** Asks which trial is recommended; null: the best one, another one of its setting, or none. */
async function ask(name: string, best: string, signal: AbortSignal): Promise<Recommended | null> {
  const study = await call("StudyService/GetStudy", { name, recommendation: true }, signal);
  const trial = String(study["recommendedTrial"] ?? "0"), number = (field: string) => Number(study[field] ?? 0);
  if (trial === "0" || trial === best) return null;
  const settings = await Promise.all([trial, best].map(async (n) => (await call("StudyService/GetTrial", { name: `${name}/trials/${n}` }, signal))["parameters"] as Json));
  const [one, other] = settings.map((setting) => JSON.stringify(Object.entries(setting ?? {}).sort(([a], [b]) => (a < b ? -1 : 1))));
  if (one === other) return null;
  return { trial: Number(trial), mean: number("recommendedMean"), sd: number("recommendedSd"), results: number("recommendedResults"), noise: number("noiseSd") };
}

/** Returns the trial that is recommended beside the best one, once `ready`; null: there is nothing to say beside the best one. */
export function useRecommended(name: string, study: Json | null, version: number, ready: boolean): Recommended | null {
  const turn = useTurn(version, SECONDS), best = String(study?.["bestTrial"] ?? "0");
  const algorithm = study === null ? "" : Object.keys(study["resolvedAlgorithm"] ?? study["spec"].algorithm ?? {})[0] ?? "auto";
  const asks = ready && study !== null && best !== "0" && ALGORITHMS.includes(algorithm) && objectivesOf(study).length === 1 && study["spec"].resource === undefined;
  const { value } = useLoaded(async (signal) => (asks ? { best, of: await ask(name, best, signal) } : null), [name, asks, best, turn]);
  // An answer about another best trial is not compared with this one.
  return value === null || value.best !== best ? null : value.of;
}

const rough = (value: number): string => short(Number(value.toPrecision(2)));

/** Why a trial is recommended that is not the best one. */
export function OtherThanBest({ study, recommended: { trial, mean, sd, results, noise } }: { study: Json; recommended: Recommended }): JSX.Element {
  return (
    <p class="why">Results are noisy (a single one is off by about {rough(noise)}), so that the best of many, trial {study["bestTrial"]}, is luck in part: take trial {trial}, whose setting is expected to give <strong>{short(mean)} ± {rough(sd)}</strong> by the model and its {results === 1 ? "result" : `${results} results`}.</p>
  );
}
