import type { Client } from "@backplane/client";
import { type Approval, BackplaneError, type ErrorCode } from "@backplane/contract";
import { expect, test } from "vitest";
import { answerApprovals } from "../../../src/parts/approvals/answer-approvals.ts";

const GROUP = ["appr_1", "appr_2", "appr_3"].map((id) => ({ id, digest: `digest of ${id}` }));

/** A client that records the answers and fails for some of the approvals. */
function createClient(failures: Record<string, ErrorCode> = {}) {
  const answers: unknown[] = [];
  const answer: Client["approvals"]["answer"] = async (id, body) => {
    answers.push([id, body]);
    const code = failures[id];
    if (code !== undefined) throw new BackplaneError(code);
    return {} as Approval;
  };
  return { client: { approvals: { answer } }, answers };
}

test("sends a lasting answer only once, because it covers the other calls of the group", async () => {
  const { client, answers } = createClient({ appr_2: "approval.closed", appr_3: "approval.closed" });
  await answerApprovals(client, GROUP, { response: "approve_always", covers: "tool" }, " fine ");
  expect(answers).toEqual([
    ["appr_1", { response: "approve_always", covers: "tool", digest: "digest of appr_1", feedback: "fine" }],
    ["appr_2", { response: "approve", digest: "digest of appr_2", feedback: "fine" }],
    ["appr_3", { response: "approve", digest: "digest of appr_3", feedback: "fine" }],
  ]);
});

test.for(["approve", "reject"] as const)("sends %s to every call of the group", async (response) => {
  const { client, answers } = createClient();
  await answerApprovals(client, GROUP, { response });
  expect(answers).toEqual(GROUP.map(({ id, digest }) => [id, { response, digest }]));
});

test("reports an answer that came too late", async () => {
  const lasting = createClient({ appr_1: "approval.closed" });
  await expect(
    answerApprovals(lasting.client, GROUP, { response: "approve_for_session" }),
  ).rejects.toMatchObject({ code: "approval.closed" });
  expect(lasting.answers).toHaveLength(1);
  const rejected = createClient({ appr_2: "approval.closed" });
  await expect(answerApprovals(rejected.client, GROUP, { response: "reject" })).rejects.toMatchObject({
    code: "approval.closed",
  });
});

test("reports any other failure of a lasting answer", async () => {
  const { client } = createClient({ appr_2: "auth.scope" });
  await expect(answerApprovals(client, GROUP, { response: "approve_always" })).rejects.toMatchObject({
    code: "auth.scope",
  });
});
