/** A defence, and the smallest change of the source that switches it off. */
export interface Mutant {
  defence: string;
  file: string;
  /** Stands in the file exactly once. */
  from: string;
  to: string;
  /** At least one of their tests must fail. */
  tests: string[];
}

export const RUNNER = "packages/runner/src";
export const INIT = "packages/runner/sandbox-init";
