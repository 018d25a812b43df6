/** A bus with a manually advanced clock, and a function that attaches plugins in one project. */

import { randomFillSync } from "node:crypto";
import { type BusEvent, createIdSource, type PluginCategory } from "@backplane/contract";
import type { Clock, Timer } from "@backplane/ports";
import { createBus } from "../../src/bus/bus.ts";
import type { Bus, BusDeps, BusPort } from "../../src/bus/bus-port.ts";

export const scope = { org_id: "org_acme", project_id: "proj_one" };

class ManualClock implements Clock {
  #ms = 1_000_000;
  readonly #timers = new Map<object, { at: number; run: () => void }>();

  get timers(): number {
    return this.#timers.size;
  }

  now(): number {
    return 1_700_000_000_000 + this.#ms;
  }

  monotonic(): number {
    return this.#ms;
  }

  after(ms: number, run: () => void): Timer {
    const key = {};
    this.#timers.set(key, { at: this.#ms + ms, run });
    return { stop: () => void this.#timers.delete(key) };
  }

  /** Advances in small steps and runs the microtasks of each step before the next one. */
  async advance(ms: number): Promise<void> {
    const end = this.#ms + ms;
    while (this.#ms < end) {
      this.#ms = Math.min(end, this.#ms + 50);
      for (const [key, timer] of this.#timers) {
        if (timer.at > this.#ms || !this.#timers.delete(key)) continue;
        timer.run();
      }
      await nextTurn();
    }
  }
}

export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

export async function until(condition: () => boolean): Promise<void> {
  for (let i = 0; i < 100_000; i++) {
    if (condition()) return;
    await nextTurn();
  }
  throw new Error("timed out waiting for the condition");
}

export interface TestBus {
  bus: Bus;
  clock: ManualClock;
  logged: { level: string; fields: object; message: string }[];
  attachPlugin: (name: string, category: PluginCategory) => BusPort;
  /** All events on the bus, in order of delivery. */
  events: BusEvent[];
  idle: () => Promise<void>;
}

export function createTestBus(deps: Partial<BusDeps> = {}): TestBus {
  const clock = new ManualClock();
  const logged: TestBus["logged"] = [];
  const write = (level: string) => (fields: object, message: string) =>
    void logged.push({ level, fields, message });
  const log = { debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") };
  const ids = createIdSource(
    () => clock.now(),
    (bytes) => void randomFillSync(bytes),
  );
  const bus = createBus({ clock, ids, log, pause: (run) => void setImmediate(run), ...deps });
  const events: BusEvent[] = [];
  bus.kernel("watcher").subscribe("*", (event) => void events.push(event));
  return {
    bus,
    clock,
    logged,
    events,
    attachPlugin: (name, category) => bus.attach({ name, category, scope }),
    idle: () => until(() => bus.stats().sessions === 0),
  };
}

export function codeOfThrown(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    return (error as { code: string }).code;
  }
  return "nothing was thrown";
}
