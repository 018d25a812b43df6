/** Checks that apply to every provider that uses a vendor's SDK; each vendor's tests supply the responses. */
import type { ProviderInstance } from "@backplane/contract";
import { expect } from "vitest";
import type { LlmBus } from "./llm-bus.ts";
import { json, type Vendor, type VendorReply } from "./llm-vendor.ts";

/** A status, its body and headers, and the expected failure. */
export type StatusCase = [
  status_code: number,
  body: object,
  headers: Record<string, string>,
  expected: object,
];

/**
 * Each status is classified without exposing the key and causes no second request, because the kernel does the retries.
 */
export async function expectStatuses(
  vendor: Vendor,
  bus: LlmBus,
  key: string,
  cases: readonly StatusCase[],
): Promise<void> {
  for (const [status_code, body, headers, expected] of cases) {
    vendor.answer = json(status_code, body, headers);
    const earlier_requests = vendor.requests.length;
    const end = await bus.call();
    expect(end.kind).toBe("llm.call.error");
    expect(end.payload).toMatchObject({ kind: "status", status_code, ...expected });
    expect(end.payload.error).not.toContain(key);
    // The retries of the vendor's SDK are off.
    expect(vendor.requests.length - earlier_requests).toBe(1);
  }
}

/** Each answer takes longer than the timeout of the instance, which must be short, and its connection is closed. */
export async function expectTimeouts(
  vendor: Vendor,
  bus: LlmBus,
  answers: readonly VendorReply[],
): Promise<void> {
  for (const answer of answers) {
    vendor.answer = answer;
    expect((await bus.call()).payload).toMatchObject({ kind: "timeout", retryable: true });
    await vendor.requests.at(-1)?.closed;
  }
}

/** `answer` sends one part and hangs; the user interrupts the call. */
export async function expectInterrupted(vendor: Vendor, bus: LlmBus, answer: VendorReply): Promise<void> {
  vendor.answer = answer;
  const call = bus.request();
  await bus.until(() => bus.emitted.length > 0);
  await bus.send("user.interrupt", {}).handled;
  await call.handled;
  await vendor.requests[0]?.closed;
  expect(bus.emitted.map(({ kind }) => kind)).toEqual(["llm.call.delta"]);
}

/** Sets the variables that the vendor's SDK would read; an instance without its own key must send none of them. */
export async function expectNoKeyFromEnvironment(
  vendor: Vendor,
  bus: LlmBus,
  instance: ProviderInstance,
  names: readonly string[],
): Promise<void> {
  for (const name of names) process.env[name] = "sk-of-the-gateway";
  try {
    bus.instances.org_a = [instance];
    expect((await bus.call()).kind).toBe("llm.call.response");
    expect(JSON.stringify(vendor.requests[0]?.headers)).not.toContain("of-the-gateway");
  } finally {
    for (const name of names) delete process.env[name];
  }
}
