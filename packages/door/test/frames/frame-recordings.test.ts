import { FRAME_LIMITS } from "@backplane/contract";
import type { ObservedOutput } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ok, ScriptedRunner } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, createTestKernel, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";

const FRAME = { from: "plugin", kind: "frame" } as const;

async function createRecordingKernel(more: object = {}) {
  let emit: ((output: Omit<ObservedOutput, "binding_id">) => void) | null = null;
  const runner = Object.assign(new ScriptedRunner(), {
    observe: ([binding_id]: string[], observer: (output: ObservedOutput) => void) => {
      emit = (output) => observer({ binding_id: binding_id!, ...output });
      return () => {
        emit = null;
      };
    },
  });
  const fixture = await createTestKernel({ runner });
  const binding = await fixture.bind(manifest([toolExport("read")]), more);
  const send = (text: string, call_id?: string, at = new Date().toISOString()) =>
    emit?.({ ...FRAME, at, text, ...(call_id === undefined ? {} : { call_id }) });
  return { fixture, frames: fixture.kernel.frames, binding, send, observes: () => emit !== null };
}

test("lists the recorded frames of a call, and frames of its process that belong to no call", async () => {
  const { fixture, frames, binding, send, observes } = await createRecordingKernel();
  const state = await frames.record(admin, binding.binding_id, 60);
  expect(Date.parse(state.recording_until!)).toBeGreaterThan(Date.now());
  send("earlier handshake", undefined, "2020-01-01T00:00:00.000Z");
  fixture.runner.script = ({ request }) => {
    send("handshake");
    send("mine", request.invocation_id);
    send("of another call", "inv_other");
    return ok();
  };
  const call = await fixture.call({ export_id: "read" });
  const { items } = await frames.list(admin, call.id);
  expect(items.map(({ text }) => text)).toEqual(["handshake", "mine"]);
  await frames.record(admin, binding.binding_id, 0);
  expect(observes()).toBe(false);
  const stopped_listing = await frames.list(admin, call.id);
  expect(stopped_listing).toMatchObject({ recording_until: null, observable: true });
  expect(stopped_listing.items).toHaveLength(2);
  const { items: entries } = await fixture.kernel.audit.list(
    admin,
    { action: "frames.record" },
    { limit: 5 },
  );
  expect(entries.map(({ subject }) => subject)).toEqual([binding.binding_id]);
});

test("keeps a bounded number of frames and characters per binding", async () => {
  const { fixture, frames, binding, send } = await createRecordingKernel();
  await frames.record(admin, binding.binding_id, 60);
  const call = await fixture.call({ export_id: "read" });
  for (let n = 0; n < FRAME_LIMITS.frames + 10; n++) send(String(n), call.id);
  const { items } = await frames.list(admin, call.id);
  expect(items).toHaveLength(FRAME_LIMITS.frames);
  expect(items[0]!.text).toBe("10");
  for (let n = 0; n < 4; n++) send("x".repeat(FRAME_LIMITS.chars / 2), call.id);
  expect((await frames.list(admin, call.id)).items).toHaveLength(2);
});

test("refuses to record for a caller who is not an operator, or for an unknown binding", async () => {
  const { frames, binding, observes } = await createRecordingKernel();
  const guest = { ...user, role: "guest" as const };
  await expect(frames.record(guest, binding.binding_id, 60)).rejects.toMatchObject({ code: "policy.denied" });
  await expect(frames.record(admin, "bind_none", 60)).rejects.toMatchObject({ code: "binding.not_found" });
  await expect(frames.list(guest, "inv_none")).rejects.toMatchObject({ code: "policy.denied" });
  expect(observes()).toBe(false);
});

test("shows a project only the frames of its own calls if the binding is org-wide", async () => {
  const { fixture, frames, binding, send } = await createRecordingKernel({ org_wide: true });
  await expect(frames.record(user, binding.binding_id, 60)).rejects.toMatchObject({ code: "policy.denied" });
  await frames.record(admin, binding.binding_id, 60);
  fixture.runner.script = ({ request }) => {
    send("output of any call");
    send("own", request.invocation_id);
    return ok();
  };
  const call = await fixture.call({ export_id: "read" });
  const texts = async (caller: typeof user) =>
    (await frames.list(caller, call.id)).items.map(({ text }) => text);
  expect(await texts(user)).toEqual(["own"]);
  expect(await texts(admin)).toEqual(["output of any call", "own"]);
});
