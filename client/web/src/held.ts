// Which trials workers hold.
import type { Json } from "./api";

export interface HeldTrial { study: string; number: number }

/** Trials by the worker that holds them, as they are found in one study after the other. */
export class Held {
  private readonly found = new Map<string, HeldTrial[]>();
  private readonly left: Map<string, number>;

  constructor(workers: Json[]) {
    this.left = new Map(workers.map((worker) => [String(worker["name"]), Number(worker["leases"] ?? 0)]));
  }

  /** Whether a worker holds more trials than were found. */
  get misses(): boolean {
    return [...this.left.values()].some((count) => count > 0);
  }

  /** Adds running trials of a study. Those whose leases have expired run by name alone, so that each worker has as many as it holds. */
  add(study: string, trials: Json[]): void {
    for (const trial of trials) {
      const worker = String(((trial["attempts"] ?? []) as Json[]).at(-1)?.["worker"] ?? ""), count = this.left.get(worker) ?? 0;
      if (count <= 0) continue;
      this.left.set(worker, count - 1);
      this.found.set(worker, [...this.of(worker), { study, number: Number(trial["number"]) }]);
    }
  }

  of(worker: string): HeldTrial[] {
    return this.found.get(worker) ?? [];
  }
}
