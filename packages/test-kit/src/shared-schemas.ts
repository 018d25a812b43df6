/** The schema threads of a test process. Starting a pair for every test kernel took most of the time of a short test. */
import type { ClosableSchemas } from "@backplane/supply";
import { createSchemas } from "@backplane/supply";

const threads = createSchemas();
let users = 0;

/** Each user has its own keys, as if it had its own threads. The threads end when they are idle. */
export function shareSchemas(): ClosableSchemas {
  const user = ++users;
  return {
    compile: (key, schema) => threads.compile(`${user} ${key}`, schema),
    close: async () => {},
  };
}
