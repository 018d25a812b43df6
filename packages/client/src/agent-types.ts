/** What the agent's half of the API is asked and answers, where it is no row of the contract. */
import type {
  Chain,
  JsonObject,
  PluginRow,
  PluginStatus,
  RiskContext,
  Run,
  WsServerOp,
} from "@backplane/contract";
import type { FollowOptions } from "./follow.ts";

export interface SessionWhere {
  /** Default `default`. */
  workspace?: string;
}

export interface MessageBody {
  text: string;
  attachments?: JsonObject[];
}

export type RunBody = ({ session_id: string; workspace?: string } | { chain_id: string }) & {
  input: MessageBody;
  strategy?: string;
  /** Whose tolerance of risk counts; default background. In headless nobody is asked. */
  context?: RiskContext;
};

/** Both are on disk. */
export interface Accepted {
  entry_id: number;
  event_id: string;
  run_id: string;
}

export interface Compaction {
  chain: Chain;
  summary: string;
  source: { chain_id: string; last_entry_id: number };
  tokens_before: number | null;
  tokens_after: number | null;
}

export type ClientEvent = Extract<WsServerOp, { op: "event" }>["event"];

export interface SessionUpdate {
  event: ClientEvent;
  /** Null for what is on no tape, such as deltas. */
  entry_id: number | null;
}

/** `started` comes first, `ended` last. */
export type RunUpdate = { started: Run } | SessionUpdate | { ended: Run };

export interface WatchOptions extends Omit<FollowOptions, "after"> {
  /** Replays what comes after this entry; left out, it begins with what is new. */
  since_entry?: number;
}

export interface PluginSwitched {
  name: string;
  enabled: boolean;
  trusted: boolean;
  status: PluginStatus;
}

export interface PluginInstalled {
  source: string;
  ok: true;
  plugins: PluginRow[];
}
