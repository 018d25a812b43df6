/** Risk in turns: which calls run, need approval or are refused in each context. */
import type { BusEvent, KernelTool, Risk } from "@backplane/contract";
import { toolOk } from "@backplane/sdk/kernel";
import { admin, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestSession, type TestSession } from "./test-session.ts";

const makeTool = (risk: Risk, more: Partial<KernelTool> = {}): KernelTool => ({
  name: `do_${risk}`,
  description: `Does something of ${risk} risk.`,
  parameters: { type: "object" },
  risk,
  run: () => toolOk("done"),
  ...more,
});
const RISKY = (["low", "medium", "high", "critical", "unknown"] as const).map((risk) => makeTool(risk));

const listPending = async ({ kernel }: TestSession) =>
  (await kernel.approvals.list(admin, { status: "pending" }, { limit: 20 })).items;
const outcomes = ({ events }: TestSession): BusEvent[] =>
  events.filter(({ kind }) => kind === "tool.call.result" || kind === "tool.error");

/** Returns the tools that need approval when a turn calls all of them. Every approval is rejected. */
async function findToolsNeedingApproval(
  fixture: TestSession,
  start: (text: string) => Promise<unknown>,
): Promise<string[]> {
  const turn = start(RISKY.map(({ name }) => `/tool ${name} {}`).join("\n"));
  const before = outcomes(fixture).length;
  let approvals = await listPending(fixture);
  await until(async () => {
    approvals = await listPending(fixture);
    return approvals.length + outcomes(fixture).length - before === RISKY.length;
  });
  for (const { id } of approvals) await fixture.kernel.approvals.answer(admin, id, { response: "reject" });
  await turn;
  return approvals.map((approval) => approval.tool.slice(3)).toSorted();
}

verifies(
  "tools.risk",
  "requests approval for every call above the tolerance, and always for critical risk",
  async () => {
    const fixture = await createTestSession({ tools: RISKY });
    const say = (text: string) => fixture.say(text);
    expect(await findToolsNeedingApproval(fixture, say)).toEqual(["critical", "high", "medium", "unknown"]);
    const tolerate = (conversation: "none" | "medium" | "full") =>
      fixture.kernel.policy.put(admin, "org", { tolerance: { conversation } });
    await tolerate("none");
    expect(await findToolsNeedingApproval(fixture, say)).toEqual([
      "critical",
      "high",
      "low",
      "medium",
      "unknown",
    ]);
    await tolerate("medium");
    expect(await findToolsNeedingApproval(fixture, say)).toEqual(["critical", "high", "unknown"]);
    await tolerate("full");
    expect(await findToolsNeedingApproval(fixture, say)).toEqual(["critical"]);
  },
);

verifies(
  "tools.risk",
  "applies a separate tolerance to each context and refuses calls in headless runs instead of requesting approval",
  async () => {
    const fixture = await createTestSession({ tools: RISKY });
    await fixture.kernel.policy.put(admin, "org", {
      tolerance: { conversation: "full", background: "medium", headless: "low" },
    });
    const start = (context?: "conversation" | "headless") => async (text: string) => {
      const options = context === undefined ? {} : { context };
      const ticket = await fixture.kernel.runs.start(user, { session_id: "s2", input: { text }, ...options });
      return await ticket.settled;
    };
    expect(await findToolsNeedingApproval(fixture, start())).toEqual(["critical", "high", "unknown"]);
    expect(await findToolsNeedingApproval(fixture, start("conversation"))).toEqual(["critical"]);
    const before = outcomes(fixture).length;
    expect(await findToolsNeedingApproval(fixture, start("headless"))).toEqual([]);
    const results = outcomes(fixture).slice(before);
    expect(results.map(({ kind }) => kind).toSorted()).toEqual([
      "tool.call.result",
      "tool.error",
      "tool.error",
      "tool.error",
      "tool.error",
    ]);
    expect(results.find(({ kind }) => kind === "tool.error")!.payload).toMatchObject({
      kind: "rejected",
      brief: expect.stringContaining("A headless run cannot ask for approval"),
    });
    const { items } = await fixture.kernel.invocations.list(user, { export_id: "do_medium" }, { limit: 1 });
    expect(items[0]).toMatchObject({
      status: "failed",
      error: { code: "policy.denied", details: { rule: "risk" } },
    });
  },
);

verifies(
  "tools.risk-map",
  "requests approval for a requires_approval tool even at low risk and full tolerance",
  async () => {
    const fixture = await createTestSession({ tools: [makeTool("low", { requires_approval: true })] });
    await fixture.kernel.policy.put(admin, "org", { tolerance: { conversation: "full" } });
    const turn = fixture.say("/tool do_low {}");
    await until(async () => (await listPending(fixture)).length === 1);
    const [approval] = await listPending(fixture);
    expect(approval).toMatchObject({ tool: "do_low", risk: "low", reason: "the tool requires approval" });
    await fixture.kernel.approvals.answer(admin, approval!.id, { response: "approve" });
    await turn;
  },
);
