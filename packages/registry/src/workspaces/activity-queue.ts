/**
 * The activity of one folder for one reader. A reader that is too slow loses the oldest items and is told how many.
 */
import type { WorkspaceActivity } from "@backplane/contract";
import type { Runner } from "@backplane/ports";

const MAX_ITEMS = 1_000;

export class WorkspaceActivityQueue {
  readonly #runner: Pick<Runner, "observe">;
  readonly #now: () => string;
  #items: WorkspaceActivity[] = [];
  #dropped = 0;
  #observed = "";
  #stopObserving: () => void = () => {};
  #wake: () => void = () => {};

  constructor(runner: Pick<Runner, "observe">, now: () => string) {
    this.#runner = runner;
    this.#now = now;
  }

  push(activity: WorkspaceActivity): void {
    this.#items.push(activity);
    if (this.#items.length > MAX_ITEMS) {
      this.#items.shift();
      this.#dropped++;
    }
    this.#wake();
  }

  /** Also adds the frames and other output of processes of these bindings. */
  observe(binding_ids: readonly string[]): void {
    const observed = binding_ids.toSorted().join(" ");
    if (observed === this.#observed) return;
    this.#stopObserving();
    this.#observed = observed;
    this.#stopObserving =
      this.#runner.observe?.(binding_ids, ({ at, from, kind, text }) =>
        this.push({ type: kind, at, from, text }),
      ) ?? (() => {});
  }

  async *items(stop: AbortSignal): AsyncGenerator<WorkspaceActivity> {
    const wake = () => this.#wake();
    stop.addEventListener("abort", wake);
    try {
      while (!stop.aborted) {
        if (this.#dropped > 0) {
          const count = this.#dropped;
          this.#dropped = 0;
          yield { type: "dropped", at: this.#now(), count };
        }
        yield* this.#items.splice(0);
        if (stop.aborted || this.#items.length > 0) continue;
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    } finally {
      stop.removeEventListener("abort", wake);
    }
  }

  close(): void {
    this.#stopObserving();
  }
}
