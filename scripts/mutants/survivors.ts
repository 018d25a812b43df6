/** The names of mutants that no test can kill, each with the reason why the mutant changes nothing observable. */
export const SURVIVORS: Readonly<Record<string, string>> = {
  "approval: only a pending approval expires with its gateway":
    "The store resolves only a pending approval, so the attempt to expire an answered one fails.",
};
