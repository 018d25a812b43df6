/**
 * Routes that install packages, plugins or folders stream their progress and pass a signal that can cancel the work.
 */
import type { Kernel, Operation } from "@backplane/ports";
import { expect, onTestFinished } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { ADMIN_TOKEN, startApi } from "../support/start-api.ts";

/** Replaces a method of the kernel: records the signal that it receives, and reports a step. */
function reportStep(signals: (AbortSignal | undefined)[], result: unknown) {
  return async (...args: unknown[]) => {
    const operation = args.at(-1) as Operation | undefined;
    signals.push(operation?.signal);
    operation?.report({ step: "unpack", message: "Unpacking" });
    return result as never;
  };
}

verifies("run.progress", "streams the progress of requests that install something", async () => {
  const signals: (AbortSignal | undefined)[] = [];
  const wrap = (kernel: Kernel): Kernel => ({
    ...kernel,
    packages: {
      ...kernel.packages,
      install: reportStep(signals, { package: {}, created: true }),
      installAgentPlugin: reportStep(signals, {}),
    },
    installations: {
      ...kernel.installations,
      install: reportStep(signals, { packages: [], bindings: [] }),
    },
    marketplace: { ...kernel.marketplace, install: reportStep(signals, { packages: [], bindings: [] }) },
    workspaces: { ...kernel.workspaces, trust: reportStep(signals, {}) },
    plugins: { ...kernel.plugins, inspect: reportStep(signals, []), install: reportStep(signals, []) },
  });
  const api = await startApi({ wrap });
  onTestFinished(() => api.close());
  const folder = { source: { folder: "/srv/plugin" } };
  const requests: [path: string, body: object][] = [
    ["/v1/plugin-packages", folder],
    ["/v1/agent-plugins", folder],
    ["/v1/plugin-installations", { source: { kind: "folder", path: "/srv/plugin" } }],
    ["/v1/marketplace/acme-tools:install", {}],
    ["/v1/workspaces", { path: "/srv/tools" }],
    ["/v1/plugins:inspect", { source: "acme" }],
    ["/v1/plugins:install", { source: "acme" }],
  ];
  for (const [path, body] of requests) {
    // The scripted results do not match the schemas that `api.call` checks.
    const send = (accept: string) =>
      api.api.inject({
        method: "POST",
        url: path,
        headers: { host: "127.0.0.1:7420", authorization: `Bearer ${ADMIN_TOKEN}`, accept },
        payload: body,
      });
    const { body: text } = await send("text/event-stream");
    expect(text, path).toMatch(/^event: progress\ndata: .*"step":"unpack"/m);
    expect(text, path).toMatch(/^event: result$/m);
    expect(signals.pop(), path).toBeInstanceOf(AbortSignal);
    // A client that prefers JSON gets JSON, and its request completes even if it disconnects.
    for (const accept of ["application/json", "application/json, text/event-stream"]) {
      const plain = await send(accept);
      expect(plain.headers["content-type"], path).toContain("application/json");
      expect(signals.pop(), path).toBeUndefined();
    }
  }
});
