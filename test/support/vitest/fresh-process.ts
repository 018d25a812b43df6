/**
 * The test files of a worker share its process. Each file begins with the environment and the umask of a new process,
 * because a gateway that ran in the process has changed its umask permanently.
 */
const KEY = Symbol.for("backplane.test.environment");
const shared_globals = globalThis as { [KEY]?: NodeJS.ProcessEnv };

shared_globals[KEY] ??= { ...process.env };
// Vitest sets its own variables for each file.
const isNotFromVitest = (name: string) => !name.startsWith("VITEST");
for (const name of Object.keys(process.env).filter(isNotFromVitest))
  if (!(name in shared_globals[KEY])) delete process.env[name];
for (const name of Object.keys(shared_globals[KEY]).filter(isNotFromVitest))
  process.env[name] = shared_globals[KEY][name];
process.umask(0o022);
