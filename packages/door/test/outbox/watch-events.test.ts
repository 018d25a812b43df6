import type { SemanticEvent } from "@backplane/contract";
import type { KernelDeps, Scope } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel, scope, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { watchEvents } from "../../src/outbox/watch-events.ts";

test("streams the events of a scope in order from the reader's position, then live", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(manifest([toolExport("echo")]));
  await fixture.call({ export_id: "echo" });
  const stop = new AbortController();
  const events: SemanticEvent[] = [];
  const watching = (async () => {
    for await (const event of fixture.kernel.events.watch(user, 0, stop.signal)) events.push(event);
  })();
  await until(() => events.some((event) => event.type === "invocation.settled"));
  await fixture.call({ export_id: "echo" });
  await until(() => events.filter((event) => event.type === "invocation.settled").length === 2);
  stop.abort();
  await watching;
  const seqs = events.map((event) => event.seq);
  expect(seqs).toEqual([...seqs].sort((a, b) => a - b));
  expect(new Set(seqs).size).toBe(seqs.length);
  expect(events[0]).not.toHaveProperty("from_hook");
  const resume_stop = new AbortController();
  const resumed: number[] = [];
  for await (const event of fixture.kernel.events.watch(user, seqs[1]!, resume_stop.signal)) {
    resumed.push(event.seq);
    if (resumed.length === seqs.length - 2) resume_stop.abort();
  }
  expect(resumed).toEqual(seqs.slice(2));
  const other_org_admin = { ...admin, scope: { ...scope, org_id: "org_far" } };
  const none = new AbortController();
  const other_org_events = fixture.kernel.events
    .watch(other_org_admin, 0, none.signal)
    [Symbol.asyncIterator]();
  const next = other_org_events.next();
  none.abort();
  expect(await next).toEqual({ done: true, value: undefined });
});

test("does not reread the events of other scopes for a scope without events", async () => {
  const fixture = await createTestKernel();
  const reads: number[] = [];
  const { outbox } = fixture.store;
  const watched = {
    ...fixture.deps,
    store: {
      ...fixture.store,
      outbox: {
        getCursor: (consumer: string) => outbox.getCursor(consumer),
        onAppended: (listener: () => void) => outbox.onAppended(listener),
        read: (after: number, limit: number, scope?: Scope) => {
          reads.push(after);
          return outbox.read(after, limit, scope);
        },
      },
    },
  } as unknown as KernelDeps;
  const quiet = { org_id: "org_quiet", project_id: "proj_quiet" };
  const stop = new AbortController();
  const subject_ids: string[] = [];
  const following = (async () => {
    for await (const event of watchEvents(watched, quiet, 0, stop.signal)) {
      subject_ids.push(event.subject.id);
      stop.abort();
    }
  })();
  await fixture.bind(manifest([toolExport("echo")]));
  for (let i = 0; i < 20; i++) await fixture.call({ export_id: "echo" });
  await until(async () => (await outbox.getCursor("hooks")) >= 20);
  await fixture.call({ export_id: "echo" });
  await until(() => (reads.at(-1) ?? 0) >= 20);
  // An event of this scope is still delivered.
  const admin_there = { ...admin, scope: quiet };
  const { package: installed } = await fixture.kernel.packages.install(
    admin_there,
    fixture.importer.add(manifest([toolExport("echo")])),
  );
  await following;
  expect(subject_ids).toEqual([installed.id]);
  expect(reads.length).toBeLessThan(30);
});
