/**
 * `rterm.plugin.v1`: one process per call. The handshake and the request are one line each, and each is answered with
 * one line. The host decides what the plugin may do; the capabilities in the plugin's handshake must be within the
 * grant.
 */
import { BackplaneError, type JsonObject, type SideManifest, type SideResponse } from "@backplane/contract";
import type { RunRequest } from "@backplane/ports";
import { SideHost } from "@backplane/wire";
import { clipMessage, type PluginAnswer } from "../ports/answer.ts";
import type { Dialect, DialectCall, DialectSession, ProcessLink } from "../ports/dialect.ts";

export const sideProcess: Dialect = {
  protocol: "rterm.plugin.v1",
  lifetime: "call",
  launch_timeout: "launch_ms",
  unsupportedReason: (request) =>
    request.op === "tool.invoke"
      ? null
      : `rterm.plugin.v1 supports only tools, but ${request.export_id} was called with ${request.op}. Package it for vai.rpc.v1.`,
  connect: (link) => new SideSession(link),
};

class SideSession implements DialectSession {
  readonly #link: ProcessLink;
  readonly #host: SideHost;
  #manifest: SideManifest | null = null;

  constructor(link: ProcessLink) {
    this.#link = link;
    this.#host = new SideHost({
      transport: link.transport,
      limits: link.limits,
      onViolation: (violation) => link.reportViolation(violation.kind),
    });
  }

  async open(): Promise<void> {
    const { handshake_ms } = this.#link.timeouts;
    let stop: () => void = () => {};
    const timeout = new Promise<never>((_, reject) => {
      stop = this.#link.after(handshake_ms, () => {
        const message = `The plugin did not answer the handshake within ${handshake_ms} ms.`;
        reject(new BackplaneError("handshake_failed", message, { details: { handshake_ms } }));
      });
    });
    try {
      this.#manifest = await Promise.race([this.#host.handshake(), timeout]);
    } finally {
      stop();
    }
    const { package_id } = this.#link.package;
    const declared_id = this.#link.request?.package.runtime.plugin_id;
    const expected = declared_id ?? package_id;
    const { plugin_id } = this.#manifest;
    if (declared_id === undefined ? !isNameOf(plugin_id, package_id) : plugin_id !== declared_id) {
      throw new BackplaneError(
        "handshake_failed",
        `The plugin reports the id ${JSON.stringify(plugin_id)}, but the gateway expects ${expected}.`,
        {
          details: { expected, actual: plugin_id },
          fix: "Set plugin_id under [runtime] in vai-plugin.toml to the id that the plugin reports.",
        },
      );
    }
  }

  call(exchange: DialectCall): void {
    const { request } = exchange;
    const refusal = checkManifest(this.#manifest!, request);
    if (refusal !== null) {
      exchange.failed(refusal);
      return;
    }
    exchange.sent();
    this.#host
      .execute({
        type: "request",
        request_id: exchange.id,
        tool_name: toolOf(request),
        context: exchange.context,
        input: exchange.body.input ?? null,
      })
      .then(
        (response) => exchange.answered(acceptSide(response)),
        (error: BackplaneError) => exchange.failed(error),
      );
  }

  cancel(): boolean {
    return false;
  }

  abandon(): void {}

  /** The protocol has no shutdown message; a waiting plugin exits when its stdin ends. */
  shutdown(): void {
    this.#link.transport.close();
  }

  trailingOutputError(): BackplaneError | null {
    if (!this.#host.extraOutput) return null;
    return new BackplaneError(
      "malformed_response",
      "The plugin wrote more than its one response line. Print logs to stderr.",
    );
  }
}

/** A plugin may report its name without the publisher, because only the registry requires one. */
function isNameOf(plugin_id: string, package_id: string): boolean {
  return plugin_id === package_id || plugin_id === package_id.slice(package_id.lastIndexOf("/") + 1);
}

function checkManifest(manifest: SideManifest, request: RunRequest): BackplaneError | null {
  const allowed = request.grant.capabilities;
  const requested = manifest.capabilities ?? [];
  const invalid = requested.find(
    (name, i) => name.trim() !== name || name === "" || requested.indexOf(name) !== i,
  );
  if (invalid !== undefined) {
    return new BackplaneError(
      "handshake_failed",
      `The handshake lists the capability ${JSON.stringify(invalid)}, which is empty, padded or duplicated.`,
      { details: { capability: invalid } },
    );
  }
  if (allowed.length > 0 && requested.length === 0) {
    return new BackplaneError(
      "capability_not_declared",
      `${allowed.join(", ")} is granted, but the plugin's handshake declares no capability.`,
      { details: { granted: allowed } },
    );
  }
  const forbidden = requested.filter((name) => !allowed.includes(name));
  if (forbidden.length > 0) {
    return new BackplaneError(
      "capability_not_allowed",
      `The plugin asks for ${forbidden.join(", ")}, which it was not granted.`,
      { details: { asked: requested, granted: allowed, forbidden } },
    );
  }
  const tool = toolOf(request);
  if (!manifest.exposed_tools.includes(tool)) {
    return new BackplaneError(
      "tool_not_exposed",
      `The plugin does not expose ${tool}; it exposes ${manifest.exposed_tools.join(", ") || "nothing"}.`,
      {
        details: { tool, exposed_tools: manifest.exposed_tools },
        fix: "Set tool_name under [exports.tool] in vai-plugin.toml to the id that the plugin reports.",
      },
    );
  }
  return null;
}

/** The name that the plugin itself uses for the tool. */
function toolOf(request: RunRequest): string {
  return request.native_name ?? request.export_id;
}

/** Turns the output into a tool result, so that a tool call has the same result in every dialect. */
function acceptSide(response: SideResponse): PluginAnswer {
  if (response.status === "error") {
    const { code, message } = response.error!;
    const details: JsonObject = { plugin_code: clipMessage(code) };
    if (response.metadata !== undefined) details.metadata = response.metadata;
    return {
      status: "failed",
      result: null,
      error: { code: "plugin_failed", message: clipMessage(message), details },
    };
  }
  const output = response.output ?? null;
  const text = typeof output === "string" ? output : JSON.stringify(output);
  const result: JsonObject = {
    content: output === null ? [] : [{ type: "text", text }],
    structured_output: output,
    is_error: false,
  };
  if (response.metadata !== undefined) result.metadata = response.metadata;
  return { status: "succeeded", result, error: null };
}
