/**
 * A provider with one instrument that greets and counts its greetings, and one that asks the host's model.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  type Instrument,
  type InstrumentProvider,
  InstrumentResult,
  type PluginContext,
} from "@backplane/sdk/instruments";

export class HelloWorldProvider implements InstrumentProvider {
  instruments: Instrument[] = [];

  initialize(context: PluginContext): void {
    context.logger.info("Hello World plugin initialized");
    this.instruments = [createHello(context), createSummary(context)];
  }

  shutdown(): void {}
}

function createHello({ config, dataDir }: PluginContext): Instrument {
  const file = join(dataDir, "greeted");
  return {
    name: "hello_world",
    riskLevel: "LocalWrite",
    metadata: {
      name: "hello_world",
      category: "Application",
      description: "Returns a greeting and counts how many it has given.",
      accessMode: "Exclusive",
      inputSchema: {
        type: "object",
        properties: { name: { type: "string", description: "Who to greet" } },
      },
      sideEffects: ["writes a counter"],
      defaultTimeoutMs: 5_000,
      maxTimeoutMs: 10_000,
      keywords: ["hello", "greet", "example"],
    },
    securityRules: [
      { match: { pointer: "/name", pattern: "^root$" }, effect: "deny", reason: "root is not greeted" },
    ],
    invoke(params) {
      const { name = "World" } = params as { name?: string };
      const count = readNumber(file) + 1;
      writeFileSync(file, String(count));
      const greeting = config.greeting ?? "Hello";
      return InstrumentResult.stdio({ stdout: `${greeting}, ${name}! (${count})` });
    },
  };
}

/** In External mode the host's model is unavailable, and the call fails with an error that explains this. */
function createSummary(context: PluginContext): Instrument {
  return {
    name: "hello_summary",
    riskLevel: "ReadOnly",
    metadata: {
      name: "hello_summary",
      category: "Application",
      description: "Summarizes a text with the host's own model.",
      inputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
    },
    async invoke(params) {
      const { text } = params as { text: string };
      const summary = await context.requestCognition(`Summarize in one line:\n\n${text}`, 200);
      const embedding = await context.requestEmbedding(summary);
      return InstrumentResult.data({ summary, dimensions: embedding.length });
    },
  };
}

function readNumber(file: string): number {
  try {
    return Number(readFileSync(file, "utf8"));
  } catch {
    return 0;
  }
}
