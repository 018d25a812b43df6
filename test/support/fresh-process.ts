/**
 * The test files of a worker share its process. Each file begins with the environment and the umask of a new process,
 * because a gateway that ran in the process has changed its umask permanently.
 */
const KEY = Symbol.for("backplane.test.environment");
const kept = globalThis as { [KEY]?: NodeJS.ProcessEnv };

kept[KEY] ??= { ...process.env };
// Vitest sets variables of its own for each file.
const isOurs = (name: string) => !name.startsWith("VITEST");
for (const name of Object.keys(process.env).filter(isOurs))
  if (!(name in kept[KEY])) delete process.env[name];
for (const name of Object.keys(kept[KEY]).filter(isOurs)) process.env[name] = kept[KEY][name];
process.umask(0o022);
