// The metrics of a study: what it optimizes, and what is to stay within bounds.
import type { Json } from "./api";

export interface Metric { name: string; goal: string; atLeast?: number; atMost?: number; reference?: number }

const known = new WeakMap<Json, Metric[]>();

/** All metrics that the specification names. */
export function metricsOf(study: Json): Metric[] {
  let metrics = known.get(study);
  if (metrics === undefined) known.set(study, (metrics = read(study)));
  return metrics;
}

function read(study: Json): Metric[] {
  const listed = (study["spec"].metrics ?? []) as Json[];
  const all = listed.length > 0 ? listed : [study["spec"].metric ?? {}];
  return all.map((m) => ({
    name: String(m["name"] ?? ""), goal: m["goal"] === "MINIMIZE" || m["goal"] === "MAXIMIZE" ? m["goal"] : "",
    ...(m["atLeast"] === undefined ? {} : { atLeast: Number(m["atLeast"]) }), ...(m["atMost"] === undefined ? {} : { atMost: Number(m["atMost"]) }),
    ...(m["reference"] === undefined ? {} : { reference: Number(m["reference"]) }),
  }));
}

export const objectivesOf = (study: Json): Metric[] => metricsOf(study).filter((m) => m.goal !== "");

export const hasBounds = (study: Json): boolean => metricsOf(study).some((m) => m.atLeast !== undefined || m.atMost !== undefined);

/** The metric that is shown first. */
export const mainMetric = (study: Json): string => (objectivesOf(study)[0] ?? metricsOf(study)[0])!.name;

/** Returns what a study aims at, in words. */
export function aims(study: Json): string {
  return metricsOf(study).map((m) => [m.goal === "" ? m.name : `${m.goal.toLowerCase()} ${m.name}`, m.atLeast === undefined ? "" : `at least ${m.atLeast}`, m.atMost === undefined ? "" : `at most ${m.atMost}`].filter((t) => t !== "").join(", ")).join("; ");
}
