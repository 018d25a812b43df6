/**
 * The types that tool files import from `@vellumai/plugin-api`. There are no values: the gateway resolves the name
 * itself when it loads a tool, and an editor resolves it to this file by `paths` in tsconfig.json.
 */
import type { ContentBlock } from "@backplane/contract";

export type { ContentBlock } from "@backplane/contract";

/** The default export of `tools/NAME.ts`. Every field is optional. */
export interface ToolDefinition {
  /** The default is the basename of the file. */
  name?: string;
  /** The text that the model reads to decide when to call the tool. */
  description?: string;
  /** A JSON Schema of an object. */
  input_schema?: object;
  defaultRiskLevel?: "low" | "medium" | "high";
  /** A label that policies allow or block by name. */
  category?: string;
  executionTarget?: "sandbox" | "host";
  execute?(input: never, ctx: ToolContext): ToolExecutionResult | Promise<ToolExecutionResult>;
}

export interface ToolContext {
  conversationId: string;
  workingDir: string;
  requestId?: string;
  signal?: AbortSignal;
  /** Shows output to the watchers of the session while the tool runs. */
  onOutput?: (chunk: string) => void;
  assistantId?: string;
  /** Whether a person is watching. */
  isInteractive?: boolean;
}

export interface ToolExecutionResult {
  /** The text that the model reads; may be empty. */
  content: string;
  isError?: boolean;
  /** A short status for people who watch, such as "truncated". */
  status?: string;
  /** Ends the turn with this result. */
  yieldToUser?: boolean;
  /** Images and other blocks in addition to the text. */
  contentBlocks?: ContentBlock[];
}
