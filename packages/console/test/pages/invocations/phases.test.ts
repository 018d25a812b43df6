import { expect, test } from "vitest";
import { splitPhases } from "../../../src/pages/invocations/phases.ts";

const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1) + seconds * 1_000).toISOString();

test("divides the time of a call into approval, queue and run", () => {
  const call = { created_at: at(0), started_at: at(12), ended_at: at(15), retry_count: 0 };
  const lengths = (phases: ReturnType<typeof splitPhases>) =>
    phases.map(({ name, from, to }) => `${name} ${(to - from) / 1_000}`);
  expect(lengths(splitPhases(call, { requested_at: at(0), resolved_at: at(10) }, 0))).toEqual([
    "Approval 10",
    "Queue 2",
    "Run 3",
  ]);
  expect(lengths(splitPhases({ ...call, started_at: at(0) }, null, 0))).toEqual(["Run 15"]);
  const now = Date.parse(at(60));
  expect(
    lengths(
      splitPhases(
        { created_at: at(0), started_at: null, ended_at: null, retry_count: 0 },
        { requested_at: at(1), resolved_at: null },
        now,
      ),
    ),
  ).toEqual(["Approval 59"]);
});

test("shows each attempt of a retried call, the pauses between them and the time in which the gateway was down", () => {
  const error = { code: "crashed", message: "gone" };
  const attempt = { started_at: at(1), ended_at: at(2), retried_at: at(4), reason: "retry" as const, error };
  const call = {
    created_at: at(0),
    started_at: at(1),
    ended_at: at(30),
    retry_count: 2,
    earlier_attempts: [
      attempt,
      { ...attempt, started_at: at(4), ended_at: null, retried_at: at(24), reason: "recovery" as const },
    ],
  };
  const phases = splitPhases(call, null, 0);
  expect(phases.map(({ name, kind, from, to }) => `${name} ${kind} ${(to - from) / 1_000}`)).toEqual([
    "Queue queue 1",
    "Attempt 1 run 1",
    "Pause pause 2",
    "Attempt 2 run 0",
    "Gateway down pause 20",
    "Attempt 3 run 6",
  ]);
  expect(phases.flatMap((phase) => phase.error?.code ?? [])).toEqual(["crashed", "crashed"]);
});
