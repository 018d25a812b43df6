/** A small change to the source that breaks a security check or another rule. */
export interface Mutant {
  /** The name: the area, then the rule that the change breaks. */
  name: string;
  file: string;
  /** The code to replace, which occurs in the file exactly once. */
  from: string;
  to: string;
  /** Test files. At least one of their tests must fail. */
  tests: string[];
  /** A pattern: only the tests whose full name matches it run. */
  only?: string;
  /** The broken code never ends, so a test or run that times out counts as killed. */
  hangs?: true;
}

export const RUNNER = "packages/runner/src";
export const INIT = "packages/runner/sandbox-init";
