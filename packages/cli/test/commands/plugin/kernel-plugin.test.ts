/** `plugin` commands for kernel plugins against a real gateway. */
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import type { PluginView } from "@backplane/contract";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { EXIT } from "../../../src/index.ts";
import { installKit, startTestGateway, type TestGateway } from "../../support/gateway.ts";
import { createKernelPluginFolder, type KernelPluginFolder } from "../../support/kernel-plugin.ts";
import { waitForOutput } from "../../support/wait-for-output.ts";

let gateway: TestGateway;
let greeter: KernelPluginFolder;
let broken: KernelPluginFolder;
beforeAll(async () => {
  gateway = await startTestGateway();
  greeter = createKernelPluginFolder(
    "greeter",
    'toolName: "greet", jsonSchema: {type: "object"}, onEvent() {}',
  );
  broken = createKernelPluginFolder("broken", 'onLoad() { throw new Error("no such device"); }');
});
afterAll(async () => {
  await gateway.close();
  greeter.remove();
  broken.remove();
});

const readInfo = (name: string) => gateway.json<PluginView>(["plugin", "info", name]);

test("shows a kernel plugin, installs it after a confirmation, and lists packages and kernel plugins", async () => {
  const unconfirmed = await gateway.backplane(["plugin", "install", greeter.dir]);
  expect(unconfirmed.exit).toBe(EXIT.usage);
  const install = gateway.begin(["plugin", "install", greeter.dir], { tty: true });
  await waitForOutput(
    install.io.err,
    /greeter 1\.0\.0 \(tool\) from .*greeter\nInstall this kernel plugin\? \[y\/N\] $/,
  );
  install.io.stdin.write("n\r");
  expect((await install.ended).exit).toBe(EXIT.usage);
  const after_refusal = await gateway.json<{ plugins: PluginView[] }>(["plugin", "list"]);
  expect(after_refusal.plugins.map(({ name }) => name)).not.toContain("greeter");

  const installed = await gateway.json<{ plugins: PluginView[] }>([
    "plugin",
    "install",
    greeter.dir,
    "--yes",
  ]);
  expect(installed.plugins).toMatchObject([{ name: "greeter", status: "loaded", mode: "hosted" }]);
  await installKit(gateway);
  const listed = await gateway.json<{ items: unknown[]; plugins: PluginView[] }>(["plugin", "list"]);
  expect(listed.items).toHaveLength(1);
  expect(listed.plugins.map(({ name }) => name)).toContain("greeter");
  const { out } = await gateway.backplane(["plugin", "list"]);
  expect(out).toMatch(/^NAME +VERSION +KIND +STATUS/);
  expect(out).toMatch(/\ngreeter +1\.0\.0 +kernel plugin +loaded +tool, hosted +local/);
  expect(out).toMatch(/\n\S+\/\S+ +\S+ +package +installed/);
});

test("applies disable, enable, reload, trust and remove immediately", async () => {
  expect(await gateway.json(["plugin", "disable", "greeter"])).toMatchObject({ status: "disabled" });
  expect((await readInfo("greeter")).enabled).toBe(false);
  expect(await gateway.json(["plugin", "enable", "greeter"])).toMatchObject({ status: "loaded" });
  expect(await gateway.json(["plugin", "reload", "greeter"])).toMatchObject({ status: "loaded" });
  expect((await gateway.backplane(["plugin", "trust", "greeter"])).exit).toBe(EXIT.usage);
  await gateway.json(["plugin", "trust", "greeter", "--yes"]);
  expect(await readInfo("greeter")).toMatchObject({ mode: "inline", trusted: true });
  await gateway.json(["plugin", "trust", "greeter", "--revoke"]);
  expect(await readInfo("greeter")).toMatchObject({ mode: "hosted", trusted: false });
  expect((await gateway.backplane(["plugin", "info", "greeter"])).out).toMatch(/category: +tool\n/);
  expect(await gateway.json(["plugin", "remove", "greeter", "--yes"])).toEqual({ removed: "greeter" });
  expect((await gateway.backplane(["plugin", "info", "greeter"])).err).toContain("error[plugin.not_found]");
  const bundled = await gateway.backplane(["plugin", "remove", "web", "--yes"]);
  expect(bundled.err).toContain("backplane plugin disable");
});

test("stops the installation of a kernel plugin in the gateway on Ctrl-C", async () => {
  const items = [{ name: "slow", version: "1.0.0", category: "tool", source: "slow" }];
  const stub = createServer((request, response) => {
    if (request.url === "/v1/plugins:inspect")
      response.setHeader("content-type", "application/json").end(JSON.stringify({ items }));
  });
  stub.listen(0, "127.0.0.1");
  onTestFinished(() => void stub.close());
  await once(stub, "listening");
  const url = `http://127.0.0.1:${(stub.address() as AddressInfo).port}`;
  const installing = new Promise<IncomingMessage>((resolve) =>
    stub.on("request", (request) => request.url === "/v1/plugins:install" && resolve(request)),
  );
  const { io, ended } = gateway.begin(["plugin", "install", greeter.dir, "--yes", "--url", url]);
  const request = await installing;
  expect(request.headers.accept).toContain("text/event-stream");
  const closed = once(request.socket, "close");
  io.signal("SIGINT");
  expect((await ended).exit).toBe(EXIT.interrupted);
  await closed;
  expect(io.err()).toMatch(/stopped the installation of .*greeter; nothing was installed\./);
});

test("links the folder with --editable, and reports a plugin that fails to load with exit code 1", async () => {
  const argv = ["plugin", "install", broken.dir, "--editable", "--yes"];
  const { exit, err, out } = await gateway.backplane(argv);
  expect(exit).toBe(EXIT.failed);
  expect(out).toContain("failed");
  expect(err).toContain("no such device");
  const info_output = await gateway.backplane(["plugin", "info", "broken"]);
  expect(info_output.out).toMatch(/error: +no such device\n\n.*no such device\n +at .*broken/);
  expect((await readInfo("broken")).trace).toContain("\n    at ");
  await gateway.json(["plugin", "remove", "broken", "--yes"]);
});

test("rejects --bind for a kernel plugin, --editable for an npm package, and a URL as an npm name", async () => {
  const bind = await gateway.backplane(["plugin", "install", greeter.dir, "--bind"]);
  expect(bind).toMatchObject({
    exit: EXIT.usage,
    err: expect.stringContaining("--bind is only for packages"),
  });
  const npm = await gateway.backplane(["plugin", "install", "npm:acme-memory", "--editable"]);
  expect(npm).toMatchObject({ exit: EXIT.usage, err: expect.stringContaining("local folders") });
  const url = await gateway.backplane(["plugin", "install", "npm:https://example.com/x.tgz", "--yes"]);
  expect(url.err).toContain("error[plugin.source_invalid]");
});

test("lists only packages for a key without plugins:read", async () => {
  const created = await gateway.json<{ token: string }>(["key", "create", "r", "--scope", "packages:read"]);
  const { exit, out, err } = await gateway.backplane(["plugin", "list"], {
    env: { BACKPLANE_TOKEN: created.token },
  });
  expect(exit).toBe(EXIT.ok);
  expect(out).toContain("package");
  expect(out).not.toContain("kernel plugin");
  expect(err).toContain("plugins:read");
});

/** This test must be the last, because the web plugin stays disabled. */
test("asks for confirmation before it disables the web plugin", async () => {
  const unconfirmed = await gateway.backplane(["plugin", "disable", "web"]);
  expect(unconfirmed.exit).toBe(EXIT.usage);
  expect((await readInfo("web")).status).toBe("loaded");
  await gateway.json(["plugin", "disable", "web", "--yes"]);
  expect((await gateway.backplane(["plugin", "list"])).exit).toBe(EXIT.ok);
  expect((await gateway.backplane(["doctor"])).out).toMatch(/plugins +degraded +not checked/);
});
