/** A process that is still starting is stopped when every call that waits for it has been cancelled. */
import type { ProgressReport } from "@backplane/contract";
import type { Operation } from "@backplane/ports";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { requestOf } from "../support/request.ts";
import { createTestRunner, processesWith, type TestRunner } from "../support/runner.ts";

/** A package whose program never completes a handshake. */
const SLEEPS = { entrypoint: ["node", "./slow.mjs", "sleeps"], timeout_ms: 100_000 };
const SLEEPING_SERVER = { ...SLEEPS, protocol: "mcp.stdio" } as const;

function createOperation(): Operation & { stop(): void; reports: ProgressReport[] } {
  const controller = new AbortController();
  const reports: ProgressReport[] = [];
  return {
    reports,
    signal: controller.signal,
    report: (progress) => void reports.push(progress),
    stop: () => controller.abort(),
  };
}

function describeServer({ runner, mark }: TestRunner, operation: Operation) {
  return runner.describe!(requestOf({ ...SLEEPING_SERVER, env: { MARK: mark } }), operation);
}

verifies(
  "run.progress",
  "reports the steps of a launch, and stops it when its only caller is cancelled",
  async () => {
    const test_runner = createTestRunner();
    const operation = createOperation();
    const described = describeServer(test_runner, operation);
    described.catch(() => {});
    await expect
      .poll(() => operation.reports.map(({ step }) => step))
      .toEqual(["prepare", "launch", "initialize"]);
    expect(operation.reports.at(-1)?.message).toBe("Waiting for acme/fixture to answer");
    expect(processesWith(test_runner.mark)).not.toEqual([]);
    operation.stop();
    await expect(described).rejects.toMatchObject({ code: "request.cancelled" });
    await expect.poll(() => processesWith(test_runner.mark)).toEqual([]);
    expect(test_runner.runner.health().held_back).toEqual([]);
  },
);

test("continues a launch while another caller waits for it", async () => {
  const test_runner = createTestRunner();
  const [one, other] = [createOperation(), createOperation()];
  const described = [one, other].map((operation) => describeServer(test_runner, operation));
  for (const each of described) each.catch(() => {});
  await expect.poll(() => other.reports.at(-1)?.step).toBe("initialize");
  one.stop();
  await expect(described[0]).rejects.toMatchObject({ code: "request.cancelled" });
  expect(processesWith(test_runner.mark)).not.toEqual([]);
  expect(test_runner.runner.serves!(requestOf({ ...SLEEPING_SERVER, env: { MARK: test_runner.mark } }))).toBe(
    true,
  );
  other.stop();
  await expect.poll(() => processesWith(test_runner.mark)).toEqual([]);
});

test("does not start a process for a request that is already cancelled", async () => {
  const test_runner = createTestRunner();
  const operation = createOperation();
  operation.stop();
  await expect(describeServer(test_runner, operation)).rejects.toMatchObject({ code: "request.cancelled" });
  expect(processesWith(test_runner.mark)).toEqual([]);
});

verifies(
  "run.progress",
  "stops the process of a call that is cancelled while the process starts",
  async () => {
    const test_runner = createTestRunner();
    const ended = test_runner.run({ ...SLEEPS, invocation_id: "inv_cancelled" });
    await expect.poll(() => processesWith(test_runner.mark)).not.toEqual([]);
    expect(test_runner.runner.cancel("inv_cancelled", "user")).toBe(true);
    expect(await ended).toMatchObject({ status: "cancelled", dispatched: false });
    await expect.poll(() => processesWith(test_runner.mark)).toEqual([]);
  },
);
