/** Secrets, bindings and packages against a real gateway. */
import { once } from "node:events";
import { cpSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import type { Binding, Delivery } from "@backplane/contract";
import { loadConfig, startGateway } from "@backplane/gateway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { EXIT } from "../../../src/index.ts";
import { installKit, PLUGIN, startTestGateway, type TestGateway } from "../../support/gateway.ts";
import { waitForOutput } from "../../support/wait-for-output.ts";

let gateway: TestGateway;
let bindings: Record<string, Binding>;
beforeAll(async () => {
  gateway = await startTestGateway();
  bindings = await installKit(gateway);
});
afterAll(() => gateway.close());

describe("secrets", () => {
  const VALUE = "s3cr3t-value-of-the-test";

  test("exits with 3 for a call with an unbound slot, and passes the value to the plugin once it is bound", async () => {
    expect(bindings.secretive).toMatchObject({ status: "inactive", unbound_slots: ["token"] });
    const refused = await gateway.backplane(["invoke", "secretive"]);
    expect(refused.exit).toBe(EXIT.denied);
    expect(refused.err).toContain(
      `fix: backplane binding set ${bindings.secretive!.binding_id} --secret token=NAME`,
    );

    const stored = await gateway.backplane(["secret", "set", "kit_token"], { stdin: `${VALUE}\n` });
    expect(stored.exit).toBe(EXIT.ok);
    expect(stored.out + stored.err).not.toContain(VALUE);
    const id = bindings.secretive!.binding_id;
    const set = await gateway.json<Binding>(["binding", "set", id, "--secret", "token=kit_token"]);
    expect(set).toMatchObject({ status: "active", policy: { class: "worker" } });
    const result = await gateway.backplane(["invoke", "secretive"]);
    expect(result.out).toBe(`${VALUE.length} characters\n`);
  });

  test("does not echo a secret typed at a terminal", async () => {
    const { io, ended } = gateway.begin(["secret", "set", "typed"], { tty: true });
    await waitForOutput(io.err, /Value of typed/);
    io.stdin.write(`${VALUE}\r`);
    const { exit, out, err } = await ended;
    expect(exit).toBe(EXIT.ok);
    expect(out + err).not.toContain(VALUE);
  });

  test("prompts on a terminal for a secret that does not exist yet, without echoing it", async () => {
    const id = bindings.secretive!.binding_id;
    const { io, ended } = gateway.begin(["binding", "set", id, "--secret", "TOKEN=asked_for"], { tty: true });
    await waitForOutput(io.err, /Secret asked_for does not exist yet\. Value \(not shown\): /);
    io.stdin.write(`${VALUE}\r`);
    const { exit, out, err } = await ended;
    expect(exit, err).toBe(EXIT.ok);
    expect(out + err).not.toContain(VALUE);
    expect((await gateway.backplane(["invoke", "secretive"])).out).toBe(`${VALUE.length} characters\n`);
    await gateway.backplane(["binding", "set", id, "--secret", "token=kit_token"]);
  });

  test("refuses flags for MCP servers on other packages", async () => {
    const { binding_id } = bindings.secretive!;
    const refused = await gateway.backplane(["binding", "set", binding_id, "--env", "LEVEL=debug"]);
    expect(refused.exit).toBe(EXIT.usage);
    expect(refused.err).toContain("--env is for MCP servers, and ");
  });

  test("never prints values; refuses to delete a secret in use, deletes an unused one with --yes", async () => {
    const listed = await gateway.backplane(["secret", "list", "--json"]);
    const secret = await gateway.backplane(["secret", "show", "kit_token"]);
    expect(listed.out).toContain("kit_token");
    expect(listed.out + secret.out).not.toContain(VALUE);
    expect((await gateway.backplane(["secret", "remove", "kit_token", "--yes"])).err).toContain(
      "error[secret.in_use]",
    );
    expect((await gateway.backplane(["secret", "remove", "typed", "--yes"])).exit).toBe(EXIT.ok);
    expect((await gateway.backplane(["secret", "show", "typed"])).err).toContain("error[secret.not_found]");
  });
});

describe("bindings and packages", () => {
  test("keeps other settings on `set` and applies the change to the next call", async () => {
    const id = bindings.echo!.binding_id;
    const set = await gateway.json<Binding>([
      "binding",
      "set",
      id,
      "--config",
      '{"prefix":"> "}',
      "--timeout",
      "9000",
      "--domains",
      "a.example.com, b.example.com",
      "--capabilities",
      "net.http",
    ]);
    expect(set.policy).toEqual({
      class: "worker",
      timeout_ms: 9000,
      allowed_domains: ["a.example.com", "b.example.com"],
      capabilities: ["net.http"],
    });
    expect((await gateway.backplane(["invoke", "echo", "--input", '{"text":"x"}'])).out).toBe("> x\n");
    const wrong = await gateway.backplane(["binding", "set", id, "--config", '{"prefix":1}']);
    expect(wrong.exit).toBe(EXIT.failed);
    expect(wrong.err).toContain("prefix");
  });

  test("refuses `set` without a flag and does not change the binding", async () => {
    const id = bindings.echo!.binding_id;
    const initial = await gateway.json<Binding>(["binding", "show", id]);
    const { exit, err } = await gateway.backplane(["binding", "set", id]);
    expect(exit).toBe(EXIT.usage);
    expect(err).toContain("No setting to change was specified.");
    expect(await gateway.json<Binding>(["binding", "show", id])).toEqual(initial);
  });

  test("removes mounts and secrets by flag", async () => {
    const id = bindings.secretive!.binding_id;
    const folder = mkdtempSync(join(tmpdir(), "backplane-cli-"));
    try {
      const set = (...flags: string[]) => gateway.json<Binding>(["binding", "set", id, ...flags]);
      expect((await set("--mount", `${folder}:/data`)).policy.mounts).toHaveLength(1);
      expect((await set("--no-mount")).policy).toMatchObject({ class: "worker", mounts: [] });
      await gateway.backplane(["secret", "set", "kept"], { stdin: "a value of a secret\n" });
      expect((await set("--secret", "token=kept")).status).toBe("active");
      const in_use = await gateway.backplane(["secret", "remove", "kept", "--yes"]);
      expect(in_use.err).toContain(`fix: backplane binding set --unset-secret SLOT ${id}`);
      const wrong = await gateway.backplane(["binding", "set", id, "--unset-secret", "tokn"]);
      expect(wrong.exit).toBe(EXIT.usage);
      expect(wrong.err).toContain("Slot tokn has no secret. Bound slots: token.");
      expect(await set("--unset-secret", "token")).toMatchObject({ secrets: {}, status: "inactive" });
      expect((await gateway.backplane(["secret", "remove", "kept", "--yes"])).exit).toBe(EXIT.ok);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test("finds a binding by its export; explains an ambiguous and an unknown name", async () => {
    const binding = await gateway.json<Binding>(["binding", "show", "echo"]);
    expect(binding.binding_id).toBe(bindings.echo!.binding_id);
    const ambiguous = await gateway.backplane(["binding", "remove", "cli-kit", "--yes"]);
    expect(ambiguous.err).toContain("error[binding.not_found]");
    expect(ambiguous.err).toContain(`${bindings.echo!.binding_id} (echo)`);
    const no_match = await gateway.backplane(["binding", "set", "ecko", "--timeout", "9000"]);
    expect(no_match.err).toContain("No binding matches ecko.");
  });

  test("explains an unknown secret and a missing server name", async () => {
    const unknown_secret = await gateway.backplane(["binding", "set", "echo", "--secret", "token=kit_tokn"]);
    expect(unknown_secret.err).toContain("Secret kit_tokn does not exist.");
    const server = await gateway.backplane(["plugin", "install", "--mcp", "https://a.example/mcp"]);
    expect([server.exit, server.err]).toEqual([
      EXIT.usage,
      expect.stringContaining("fix: backplane plugin install --mcp https://a.example/mcp NAME"),
    ]);
  });

  test("reports domains that the package does not request as unreachable", async () => {
    const set = (...flags: string[]) =>
      gateway.backplane(["binding", "set", bindings.echo!.binding_id, ...flags]);
    expect((await set("--domains", "api.example.com")).err).toContain(
      "Not reachable: api.example.com. acme/cli-kit does not request network access.",
    );
    expect((await set("--domains", "")).err).toBe("");
  });

  test("does not overwrite a concurrent change with `set`", async () => {
    const id = bindings.slow!.binding_id;
    // A proxy between the command and the gateway, which makes another change right before the PATCH.
    const proxy = createServer((request, response) => {
      void (async () => {
        if (request.method === "PATCH") await gateway.json(["binding", "set", id, "--timeout", "7000"]);
        const body = request.method === "GET" ? undefined : await text(request);
        const headers: Record<string, string> = { ...(request.headers as Record<string, string>) };
        headers.host = new URL(gateway.url).host;
        for (const name of ["connection", "content-length", "transfer-encoding"]) delete headers[name];
        const upstream = await fetch(gateway.url + request.url, {
          method: request.method ?? "GET",
          headers,
          ...(body && { body }),
        });
        const type = upstream.headers.get("content-type") ?? "";
        response.writeHead(upstream.status, { "content-type": type }).end(await upstream.text());
      })();
    });
    proxy.listen(0, "127.0.0.1");
    await once(proxy, "listening");
    const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    try {
      const { exit, err } = await gateway.backplane([
        "binding",
        "set",
        id,
        "--timeout",
        "9000",
        "--url",
        url,
      ]);
      expect(exit).toBe(EXIT.failed);
      expect(err).toContain("error[request.precondition]");
      expect(err).toContain("fix: The record was changed by another request at the same time");
      expect((await gateway.json<Binding>(["binding", "show", id])).policy.timeout_ms).toBe(7_000);
    } finally {
      proxy.close();
    }
  });

  test("aborts an installation on Ctrl-C and exits immediately on a second one", async () => {
    const slow = createServer(() => {});
    slow.listen(0, "127.0.0.1");
    await once(slow, "listening");
    const url = `http://127.0.0.1:${(slow.address() as AddressInfo).port}`;
    const { io, ended } = gateway.begin(["plugin", "install", "npm:acme-server", "--url", url, "--", "x"]);
    const [request] = (await once(slow, "request")) as [IncomingMessage];
    const closed = once(request.socket, "close");
    io.signal("SIGINT");
    expect(io.exits).toEqual([]);
    io.signal("SIGINT");
    expect(io.exits).toEqual([EXIT.interrupted]);
    expect((await ended).exit).toBe(EXIT.interrupted);
    await closed;
    expect(io.err()).toContain("stopped the installation of acme-server; nothing was installed.");
    slow.close();
  });

  test("disables, enables, validates, shows and lists bindings", async () => {
    const id = bindings.echo!.binding_id;
    expect((await gateway.json<Binding>(["binding", "disable", id])).status).toBe("disabled");
    expect((await gateway.backplane(["invoke", "echo", "--input", '{"text":"x"}'])).exit).not.toBe(EXIT.ok);
    expect((await gateway.json<Binding>(["binding", "enable", id])).status).toBe("active");
    const { exit, out } = await gateway.backplane(["binding", "validate", id]);
    expect(exit).toBe(EXIT.ok);
    expect(out).toMatch(/^valid, active\nclass: +\w+\nnetwork: +none\n/);
    expect((await gateway.backplane(["binding", "show", id])).out).toContain("acme/cli-kit@0.1.0");
    const { items } = await gateway.json<{ items: Binding[] }>(["binding", "list", "--kind", "tool"]);
    expect(items).toHaveLength(5);
  });

  test("keeps the bindings on a second installation, and refuses to remove a package in use", async () => {
    const again = await installKit(gateway);
    const ids = (bound: Record<string, Binding>) =>
      Object.values(bound)
        .map((binding) => binding.binding_id)
        .sort();
    expect(ids(again)).toEqual(ids(bindings));
    expect((await gateway.backplane(["plugin", "info", "acme/cli-kit"])).out).toContain("secretive");
    const removed = await gateway.backplane(["plugin", "remove", "acme/cli-kit@0.1.0", "--yes"]);
    expect(removed.err).toContain("error[package.bound]");
  });

  test("packs, installs the archive, binds by name, and removes binding and package", async () => {
    const cwd = mkdtempSync(join(tmpdir(), "backplane-cli-"));
    try {
      const packed = await gateway.json<{ file: string; digest: string }>(
        ["plugin", "pack", PLUGIN, "-o", "kit.tgz"],
        { cwd },
      );
      expect(statSync(packed.file).size).toBeGreaterThan(0);
      expect((await gateway.backplane(["plugin", "pack", PLUGIN, "-o", "kit.tgz"], { cwd })).exit).toBe(
        EXIT.usage,
      );
      const other_scope = ["--org", "org_other", "--project", "proj_other"];
      const result = await gateway.backplane(["plugin", "install", "kit.tgz", ...other_scope], { cwd });
      expect(result.out).toContain(packed.digest);
      // The suggested command works.
      const fourth = ["--org", "org_fourth"];
      const hint = await gateway.backplane(["plugin", "install", "kit.tgz", ...fourth], { cwd });
      const next = /^Next: backplane (.+)$/m.exec(hint.err)?.[1] ?? "";
      expect(next).toBe("binding create acme/cli-kit@0.1.0 echo");
      await gateway.json([...next.split(" "), ...fourth]);
      const call = ["invoke", "echo", "--input", '{"text":"x"}', ...fourth];
      expect((await gateway.backplane(call)).exit).toBe(EXIT.ok);
      // For another version, the suggested command upgrades the existing binding, with a trial.
      cpSync(PLUGIN, join(cwd, "next"), { recursive: true });
      const file = join(cwd, "next/vai-plugin.toml");
      writeFileSync(file, readFileSync(file, "utf8").replace(/^version = .*$/m, 'version = "0.2.0"'));
      const newer = await gateway.backplane(["plugin", "install", "next", ...fourth], { cwd });
      expect(newer.err).toMatch(
        /echo is bound to version 0\.1\.0\. Next: backplane plugin upgrade acme\/cli-kit@0\.2\.0\n/,
      );
      const created = await gateway.json<Binding>([
        "binding",
        "create",
        "acme/cli-kit",
        "echo",
        "--class",
        "worker",
        "--approval",
        "never",
        "--percent",
        "50",
        ...other_scope,
      ]);
      expect(created).toMatchObject({
        rollout: { traffic_percent: 50 },
        scope: { org_id: "org_other", project_id: "proj_other" },
      });
      expect((await gateway.backplane(["binding", "remove", created.binding_id, ...other_scope])).exit).toBe(
        EXIT.usage,
      );
      expect(
        (await gateway.backplane(["binding", "remove", created.binding_id, "--yes", ...other_scope])).exit,
      ).toBe(EXIT.ok);
      expect(
        (await gateway.backplane(["plugin", "remove", "acme/cli-kit", "--yes", ...other_scope])).exit,
      ).toBe(EXIT.ok);
      expect(await gateway.json(["plugin", "list", ...other_scope])).toMatchObject({ items: [], next: null });
    } finally {
      rmSync(cwd, { recursive: true, force: true });
    }
  });

  test("suggests a command that works without a sandbox, and refuses isolated calls", async () => {
    const home = mkdtempSync(join(tmpdir(), "backplane-cli-"));
    const env = { BACKPLANE_HOME: home, BACKPLANE_SANDBOX: "0" };
    const flags = { port: 0, log_level: "silent" };
    const unconfined = await startGateway(loadConfig({ home, env, flags }));
    try {
      const hint = await gateway.backplane(["plugin", "install", PLUGIN], { env });
      expect(hint.err).toContain("refuses calls that must run isolated: echo");
      const next = /^If you trust the plugin: backplane (.+)$/m.exec(hint.err)?.[1] ?? "";
      expect(next).toBe("binding create acme/cli-kit@0.1.0 echo --class worker");
      await gateway.json(next.split(" "), { env });
      const call = ["invoke", "echo", "--input", '{"text":"x"}'];
      expect((await gateway.backplane(call, { env })).exit).toBe(EXIT.ok);

      const third = ["--org", "org_third"];
      const bound = await gateway.backplane(["plugin", "install", PLUGIN, "--bind", ...third], { env });
      const lower = /backplane binding set (bind_\w+) --class worker/.exec(bound.err)?.[1] ?? "";
      const isolated = ["invoke", "--binding", lower, "--input", '{"text":"x"}', ...third];
      const refused = await gateway.backplane(isolated, { env });
      expect({ exit: refused.exit, err: refused.err }).toEqual({
        exit: EXIT.denied,
        err: expect.stringContaining("error[sandbox.unavailable]"),
      });
    } finally {
      await unconfined.stop("test over");
      rmSync(home, { recursive: true, force: true });
    }
  });

  test("reports why a folder is not a plugin, not that its upload failed", async () => {
    const cwd = mkdtempSync(join(tmpdir(), "backplane-cli-"));
    try {
      const { exit, err } = await gateway.backplane(["plugin", "install", "."], { cwd });
      expect(exit).toBe(EXIT.failed);
      expect(err).toMatch(/^error\[package\./);
    } finally {
      rmSync(cwd, { recursive: true, force: true });
    }
  });
});

test("explains what happens to the deliveries of a disabled hook and suggests pausing it instead", async () => {
  const dir = mkdtempSync(join(tmpdir(), "backplane-hook-"));
  cpSync(PLUGIN, dir, { recursive: true });
  const manifest = readFileSync(join(dir, "vai-plugin.toml"), "utf8");
  const hook =
    '[[exports]]\nid = "watch"\nkind = "hook"\n[exports.hook]\nsubscribes_to = ["session.archived"]\n';
  writeFileSync(
    join(dir, "vai-plugin.toml"),
    `${manifest.slice(0, manifest.indexOf("[[exports]]")).replace("acme/cli-kit", "acme/cli-hook")}${hook}`,
  );
  const installed = await gateway.json<{ bindings: Binding[] }>(["plugin", "install", dir, "--bind"]);
  rmSync(dir, { recursive: true });
  const id = installed.bindings[0]!.binding_id;
  const disable = async () => (await gateway.backplane(["binding", "disable", id])).err;
  expect(await disable()).toContain(
    `New events are not delivered to a disabled hook. To keep them instead: backplane hook pause ${id} && backplane binding enable ${id}`,
  );
  await gateway.json(["binding", "enable", id]);
  // A hook can be specified by its export, like any other binding.
  const paused = await gateway.backplane(["hook", "pause", "watch"]);
  expect(paused.out).toContain("The deliveries to watch are paused.");
  const { ended } = gateway.begin(["hook", "test", "watch"]);
  const listDeliveries = async () =>
    (await gateway.json<{ items: Delivery[] }>(["delivery", "list", "--binding", "watch"])).items;
  await expect.poll(listDeliveries, { timeout: 60_000 }).toHaveLength(1);
  const err = await disable();
  expect(err).toContain("1 delivery is pending. It is made after the hook is enabled again.");
  await gateway.json(["delivery", "discard", (await listDeliveries())[0]!.id]);
  await ended;
  expect(await gateway.json<Binding>(["hook", "resume", "watch"])).toMatchObject({ binding_id: id });
  expect((await gateway.backplane(["hook", "test", "watcher"])).err).toContain("No binding matches watcher.");
});
