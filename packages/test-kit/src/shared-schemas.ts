/**
 * The schema threads of a test process. Starting a pair for every test kernel and compiling the same few schemas again
 * took most of the time of a short test.
 */
import { type ClosableSchemas, createSchemas } from "@backplane/supply";

// The threads stay until the process ends: a start takes longer than most tests.
const threads = createSchemas({ idle_ms: 3_600_000 });
let users = 0;

/** A schema is compiled once for all users, because the result depends on nothing but the schema. */
export function shareSchemas(): ClosableSchemas {
  const user = ++users;
  return {
    compile: (key, schema) => threads.compile(textOf(schema) ?? `${user} ${key}`, schema),
    close: async () => {},
  };
}

/** Returns undefined for a value that is not JSON, which the compiler refuses. */
function textOf(schema: unknown): string | undefined {
  try {
    return JSON.stringify(schema);
  } catch {
    return undefined;
  }
}
