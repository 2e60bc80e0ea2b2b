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
  label: "the best that the model knows with a label that has had few trials",
  probe: "the best setting once more, to see whether results are noisy",
  spread: "the setting farthest from all others, since nothing more is expected near the best one",
  direct: "from an ever finer division of the space: where values are low, or cells are large",
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
  import: "imported", user: "a setting that a user asked for", enqueued: "a setting that a user asked for",
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

// Calls as the audit names them: what who was let through did, what others tried to do, and to what.
const DEEDS: Record<string, [string, string, string]> = {
  "StudyService/CreateStudy": ["Made", "make", "a study"],
  "StudyService/CheckStudyFile": ["Checked", "check", "a study file"],
  "StudyService/GetStudy": ["Read", "read", "a study"],
  "StudyService/ListStudies": ["Listed", "list", "studies"],
  "StudyService/UpdateStudy": ["Changed", "change", "a study"],
  "StudyService/PauseStudy": ["Paused", "pause", "a study"],
  "StudyService/ResumeStudy": ["Resumed", "resume", "a study"],
  "StudyService/StopStudy": ["Stopped", "stop", "a study"],
  "StudyService/CancelStudy": ["Cancelled", "cancel", "a study with its trials"],
  "StudyService/DeleteStudy": ["Deleted", "delete", "a study"],
  "StudyService/UndeleteStudy": ["Brought back", "bring back", "a deleted study"],
  "StudyService/GetTrial": ["Read", "read", "a trial"],
  "StudyService/ListTrials": ["Listed", "list", "trials"],
  "StudyService/EnqueueTrials": ["Asked for", "ask for", "trials of given settings"],
  "StudyService/ImportTrials": ["Imported", "import", "results"],
  "StudyService/RetryTrials": ["Had", "have", "trials tried again"],
  "StudyService/DeleteTrial": ["Deleted", "delete", "a trial"],
  "StudyService/SetAttributes": ["Changed", "change", "the notes of a trial"],
  "StudyService/CancelTrial": ["Cancelled", "cancel", "a trial"],
  "StudyService/StopTrial": ["Stopped", "stop", "a trial early"],
  "StudyService/GetTrialTable": ["Read", "read", "the table of trials"],
  "StudyService/ListEvents": ["Read", "read", "the log"],
  "StudyService/GetImportance": ["Asked", "ask", "which parameters matter"],
  "StudyService/Predict": ["Asked", "ask", "what the model expects"],
  "StudyService/ExplainTrial": ["Asked", "ask", "why a setting was tried"],
  "StudyService/ListWorkers": ["Listed", "list", "workers"],
  "StudyService/WatchStudy": ["Followed", "follow", "a study"],
  "WorkerService/Suggest": ["Asked for", "ask for", "a trial to run"],
  "WorkerService/Heartbeat": ["Said", "say", "that a worker lives"],
  "WorkerService/Report": ["Reported", "report", "a trial's progress"],
  "WorkerService/Complete": ["Told", "tell", "a trial's result"],
  "WorkerService/Fail": ["Told", "tell", "that a trial failed"],
  "WorkerService/Release": ["Gave", "give", "a trial back"],
  "WorkerService/DeclareParameters": ["Declared", "declare", "parameters of a study"],
  "WorkerService/GetServerInfo": ["Asked", "ask", "about the coordinator"],
  "AdminService/CreateToken": ["Made", "make", "a token"],
  "AdminService/ListTokens": ["Listed", "list", "tokens"],
  "AdminService/RotateToken": ["Gave", "give", "a token a new secret"],
  "AdminService/RevokeToken": ["Ended", "end", "a token"],
  "AdminService/CreateProject": ["Made", "make", "a project"],
  "AdminService/UpdateProject": ["Changed", "change", "the limits of a project"],
  "AdminService/ListProjects": ["Listed", "list", "projects"],
  "AdminService/ListAudit": ["Read", "read", "the audit"],
  "AdminService/OpenPage": ["Opened", "open", "the page"],
};

/** Returns what a caller did, or tried to do, in words; "": nothing is known of the call. */
export function deedOf(method: string, outcome: string): string {
  if (!Object.hasOwn(DEEDS, method)) return "";
  const [did, todo, what] = DEEDS[method]!;
  return outcome === "OK" ? `${did} ${what}` : `Tried to ${todo} ${what}`;
}
