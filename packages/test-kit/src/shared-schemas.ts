/** The schema threads of a test process. Starting a pair for every test kernel took most of the time of a short test. */
import type { ClosableSchemas } from "@backplane/supply";
import { createSchemas } from "@backplane/supply";

// The threads stay until the process ends: a start takes longer than most tests.
const threads = createSchemas({ idle_ms: 3_600_000 });
let users = 0;

/** Each user has its own keys, as if it had its own threads. */
export function shareSchemas(): ClosableSchemas {
  const user = ++users;
  return {
    compile: (key, schema) => threads.compile(`${user} ${key}`, schema),
    close: async () => {},
  };
}
