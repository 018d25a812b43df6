/** Which calls count in the trial of a new version. */
import type { Binding } from "@backplane/contract";
import { expect, test } from "vitest";
import { TrialWatch } from "../../src/trials/trial-watch.ts";

const binding = {
  binding_id: "bind_1",
  package_id: "acme/devkit",
  package_version: "0.2.0",
  generation: 2,
  trial: { from_version: "0.1.0", until: null, max_error_percent: 50 },
} as unknown as Binding;
const failed = { status: "failed", error: { code: "author_code", message: "no" } } as const;

function createWatch() {
  const reasons: string[] = [];
  const log = { warn: () => {}, error: () => {} };
  const watch = new TrialWatch(
    { clock: { now: () => 0 }, log } as unknown as ConstructorParameters<typeof TrialWatch>[0],
    {
      async rollBackTrial(_binding, { reason }) {
        reasons.push(reason);
        return true;
      },
    },
  );
  return { watch, reasons };
}

test("counts a cancelled call neither as a failure nor as a call of the trial", async () => {
  const { watch, reasons } = createWatch();
  // The process that serves a cancelled call may be killed, so its error can be that of a crash.
  for (const code of ["cancelled", "crashed"])
    for (let n = 0; n < 25; n++)
      expect(watch.observe(binding, { status: "cancelled", error: { code, message: "" } }, "inv")).toBeNull();
  for (let n = 0; n < 19; n++) expect(watch.observe(binding, failed, "inv")).toBeNull();
  await watch.observe(binding, failed, "inv");
  expect(reasons).toEqual(["20 of 20 calls failed."]);
});
