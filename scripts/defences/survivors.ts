/** Mutants that no test can kill, by name, each with the reason why it changes nothing that can be observed. */
export const SURVIVORS: Readonly<Record<string, string>> = {
  "approval: only a pending one expires with its gateway":
    "The store resolves only a pending approval, so the attempt to expire an answered one fails.",
};
