/** A defence or a rule, and the smallest change to the source that breaks it. */
export interface Mutant {
  defence: string;
  file: string;
  /** Occurs in the file exactly once. */
  from: string;
  to: string;
  /** Test files. At least one of their tests must fail. */
  tests: string[];
  /** Only the tests whose full name matches this pattern run. */
  only?: string;
  /** The broken code never ends, so a test that reaches its time limit counts as a failure. */
  hangs?: true;
}

export const RUNNER = "packages/runner/src";
export const INIT = "packages/runner/sandbox-init";
