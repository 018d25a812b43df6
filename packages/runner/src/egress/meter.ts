/** Counts what crosses the border and says when it is enough. Nothing crosses that was not taken here first. */
import type { EgressLimits } from "./limits.ts";

export class Meter {
  in = 0;
  out = 0;
  readonly #limits: EgressLimits;

  constructor(limits: EgressLimits) {
    this.#limits = limits;
  }

  takeOut(bytes: number): boolean {
    if (this.out + bytes > this.#limits.bytes_out) return false;
    this.out += bytes;
    return true;
  }

  takeIn(bytes: number): boolean {
    if (this.in + bytes > this.#limits.bytes_in) return false;
    this.in += bytes;
    return true;
  }
}
