/** Commands that need a whole list read all of its pages. */
import type { Approval, Binding, Installation, Package } from "@backplane/contract";
import { expect, test } from "vitest";
import { listPendingApprovals, listSessionApprovals } from "../src/chat/session-approvals.ts";
import { readBoundTools } from "../src/commands/plugin/package-text.ts";
import { listSigningKeys } from "../src/commands/signing-key.ts";
import type { CommandContext } from "../src/context/context.ts";
import { reportInstallation } from "../src/install/report-installation.ts";
import { errorResponse, pageOfOne, startFakeGateway } from "./support/fake-gateway.ts";

interface Query {
  after?: string;
}

/** A list whose pages have one item, and the number of pages that were read. */
function pagedList<T>(items: readonly T[]) {
  const read = { pages: 0 };
  const list = async ({ after = "0" }: Query = {}) => {
    read.pages++;
    const next = Number(after) + 1;
    return { items: [items[Number(after)]!], next: next < items.length ? `${next}` : null };
  };
  return { list, read };
}

const contextOf = (client: object, more: object = {}) =>
  ({ client: () => client, ...more }) as unknown as CommandContext;

const OTHER = { package_id: "npm/files", package_version: "0.9.0", export_id: "other" };

test("reads the tools of a binding on a later page", async () => {
  const bindings = pagedList([OTHER, { ...OTHER, binding_id: "bind_2", package_version: "1.0.0" }]);
  const definitions = async (id: string) => ({ id });
  const installed = {
    package_id: "npm/files",
    version: "1.0.0",
    manifest: { runtime: { protocol: "mcp.stdio" } },
  };
  const bound = await readBoundTools(
    contextOf({ bindings: { list: bindings.list, definitions } }),
    installed as unknown as Package,
  );
  expect(bound.map(({ binding }) => binding.binding_id)).toEqual(["bind_2"]);
});

test("suggests upgrading an older binding on a later page after an installation", async () => {
  const notes: string[] = [];
  const out = { note: (text: string) => notes.push(text), data: () => {}, quiet: false, json: false };
  const scope = { org_id: "org_local", project_id: null };
  const older = { ...OTHER, binding_id: "bind_2", export_id: "echo", scope } as unknown as Binding;
  const { list } = pagedList([OTHER, older]);
  const status = async () => ({ sandbox: { available: true, enabled: true } });
  const permissions = {
    network: "none",
    filesystem: "none",
    allowed_domains: [],
    secret_slots: [],
    gateway_api_scopes: [],
  };
  const runtime = { protocol: "vai.rpc.v1" };
  const manifest = { runtime, exports: [{ id: "echo", kind: "tool", permissions }] };
  const installed = { package_id: "npm/files", version: "1.0.0", digest: "sha256:0", manifest };
  const installation: Installation = {
    kind: "package",
    packages: [{ package: installed as unknown as Package, created: true }],
    bindings: [],
    left_out: [],
    notes: [],
  };
  const packages = pagedList([{ package_id: "npm/other" }, { package_id: "npm/another" }]);
  await reportInstallation(contextOf({ bindings: { list }, packages, status }, { out }), installation);
  expect(packages.read.pages).toBe(2);
  expect(notes.join("\n")).toContain("Next: backplane plugin upgrade npm/files@1.0.0 --org-wide");
});

test("lists the signing keys of all pages", async () => {
  const { list } = pagedList([{ id: "tkey_1" }, { id: "tkey_2" }]);
  expect(await listSigningKeys(contextOf({ trusted_keys: { list } }))).toHaveLength(2);
});

test("finds the approvals of a session on later pages, and stops at the start of the session", async () => {
  const approval = (id: string, session_id: string, minute: number) =>
    ({ id, session_id, requested_at: `2026-01-01T00:0${minute}:00Z` }) as unknown as Approval;
  const items = [
    approval("a4", "other", 4),
    approval("a3", "s::agent::1", 3),
    approval("a2", "s", 2),
    approval("a1", "other", 1),
    approval("a0", "other", 0),
  ];
  const pending = pagedList(items);
  const approvals = await listPendingApprovals(contextOf({ approvals: pending }), "s");
  expect(approvals.map(({ id }) => id)).toEqual(["a2", "a3"]);
  const all = pagedList(items);
  const session = { id: "s", created_at: "2026-01-01T00:01:30Z" };
  const own = await listSessionApprovals(contextOf({ approvals: all }), session);
  expect(own.map(({ id }) => id)).toEqual(["a2", "a3"]);
  expect(all.read.pages).toBe(4);
});

test("shows the children of a session that are on a later page", async () => {
  const session = {
    id: "s",
    workspace: "default",
    parent_session_id: null,
    created_at: "2026-01-01T00:00:00Z",
  };
  const gateway = await startFakeGateway(({ pathname, searchParams }) => {
    if (pathname === "/v1/sessions/s") return { json: session };
    if (pathname === "/v1/sessions")
      return pageOfOne(
        [session, { ...session, id: "child", parent_session_id: "s" }],
        searchParams.get("after"),
      );
    return { json: { items: [], next: null } };
  });
  const { err, out } = await gateway.backplane("session", "show", "s");
  expect(err).toBe("");
  expect(out).toMatch(/children: +child/);
});

test("continues the newest session that a person started, however many runs followed", async () => {
  const runs = [
    { session_id: "child", parent_run_id: "run_1", workspace: "default" },
    { session_id: "mine", parent_run_id: null, workspace: "default" },
  ];
  const gateway = await startFakeGateway(({ pathname, searchParams }) =>
    pathname === "/v1/runs"
      ? pageOfOne(runs, searchParams.get("after"))
      : errorResponse(404, "session.not_found"),
  );
  await gateway.backplane("session", "chat", "--continue", "-m", "hi");
  expect(gateway.requests).toContain("GET /v1/sessions/mine");
});
