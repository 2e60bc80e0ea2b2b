// What the words of studies mean: algorithms, parts of them, and why nothing runs.
import type { Json } from "./api";

const ALGORITHMS: Record<string, string> = {
  bo: "Bayesian optimization",
  hbo: "Bayesian optimization, in which every fourth trial is a random one",
  lbo: "Bayesian optimization that counts on a largest slope",
  fobo: "Bayesian optimization, uses gradients if reported",
  random: "independent random settings",
  sobol: "evenly spread settings",
  halton: "evenly spread settings",
  grid: "every combination of levels",
  harmonica: "learns a sparse polynomial of switches, in stages",
  tpe: "Parzen estimators of good and of bad settings",
  cmaEs: "an evolution strategy that adapts its steps",
  nsga2: "a genetic algorithm for several objectives",
  hoag: "descent along gradients", projectedGradient: "descent along gradients", iterdiff: "descent along gradients",
  successiveHalving: "random settings, of which the best are trained further",
  asha: "random settings, of which the best are trained further",
  hyperband: "random settings, of which the best are trained further, with several numbers to begin with",
};

/** Returns the name of a study's algorithm as study files have it. */
export const algorithmOf = (study: Json): string => (Object.keys(study["resolvedAlgorithm"] ?? study["spec"].algorithm ?? {})[0] ?? "auto").replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Returns what a study's algorithm does, in words; "": its name says it. */
export const algorithmWords = (study: Json): string => ALGORITHMS[Object.keys(study["resolvedAlgorithm"] ?? study["spec"].algorithm ?? {})[0] ?? ""] ?? "";

// Parts of algorithms, as the column "origin" names them.
const ORIGINS: Record<string, string> = {
  init: "one of the first trials, spread over the space before there is a model",
  acq: "where the model expects the most",
  explore: "a random setting, whatever the model expects",
  stuck_random: "a random setting, since the model's own suggestions are all tried",
  untried: "a setting that is not tried yet, instead of one that is",
  trust_region: "near the best setting, where the model is trusted",
  quasi_newton: "a step along the reported slopes",
  probe: "the best setting once more, to see whether results are noisy",
  repeat: "a setting once more: all are tried, or results are noisy",
  promote: "a trial that goes on, since it is among the best of its rung",
  random: "an independent random setting",
  sobol: "one of evenly spread settings", halton: "one of evenly spread settings",
  grid: "a combination of levels",
  tpe: "where good settings are dense and bad ones are not",
  cma_es: "drawn around the best settings so far",
  hoag: "a step along the gradient", hoag_start: "where a descent begins",
  stage: "a random setting of a stage, of which a polynomial is learnt",
  legal: "a setting within the constraints",
  import: "imported", user: "a setting that a user asked for",
};

/** Returns what the word of a trial's origin means; "": nothing is known of it. */
export const originWords = (origin: string): string => (Object.hasOwn(ORIGINS, origin) ? ORIGINS[origin]! : "");

const MINUTE = 60000;

/** Why nothing runs in a study: `brief` for lists, `full` for its own page, `cause` whether it waits for something that somebody
 * has to do. Null: there is nothing to say. */
export interface Waits { brief: string; full: string; cause: boolean }

export const isExternal = (study: Json): boolean => study["spec"].objective === undefined || study["spec"].objective.external !== undefined;
const counted = (study: Json): number => Object.values((study["trials"] ?? {}) as Record<string, unknown>).reduce((sum: number, n) => sum + Number(n), 0);

/** Returns the command that starts a worker for a study. `host`: of the coordinator. */
export function workerCommand(study: Json, host: string): string {
  const pool = String(study["spec"].pool ?? "");
  return `luthier-worker --server ${host}:7790${pool && pool !== "default" ? ` --pool ${pool}` : ""}`;
}

export function waitsOf(study: Json, now = Date.now()): Waits | null {
  if (study["state"] !== "ACTIVE" || Number(study["trials"]?.running ?? 0) > 0) return null;
  const why = String(study["stateReason"] ?? "");
  if (why === "") {
    if (!isExternal(study) || counted(study) > 0) return null;
    return { brief: "no trial was asked for yet", full: "No worker takes trials of this study: a program asks for settings and tells results, with luthier ask and tell, or with study.ask and study.tell in Python.", cause: false };
  }
  if (/ is busy with other studies/.test(why)) return { brief: "taking turns with other studies", full: "It is taking turns with other studies: each of its workers runs a trial of another one now.", cause: false };
  // A trial ended just now, so that what the coordinator says is about the moment between two.
  if (counted(study) > 0 && now - new Date(String(study["updateTime"] ?? 0)).getTime() < MINUTE && !/ rests from it/.test(why)) return null;
  const pool = String(study["spec"].pool ?? "");
  const brief = / no worker of /.test(why) ? `no worker${pool && pool !== "default" ? ` of pool ${pool}` : ""}` : why.replace(/^waiting: /, "").slice(0, 60);
  return { brief, full: why, cause: true };
}
