/** Mutants that no test can kill, by name, each with the reason why it changes nothing that can be observed. */
export const SURVIVORS: Readonly<Record<string, string>> = {};
