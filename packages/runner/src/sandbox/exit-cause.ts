/** Determines why a sandboxed process exited, from the counters of its cgroup and the report of PID 1. */
import { constants } from "node:os";
import type { CgroupCounters } from "../cgroup/cgroup.ts";
import type { EndReport } from "./control-channel.ts";
import type { SandboxLimits } from "./limits.ts";

type Cause = "oom" | "pids" | "cpu" | "disk" | "timeout" | "signal" | "exit";

export interface ExitCause {
  cause: Cause;
  /** One sentence, with the limit if one was exceeded. */
  message: string;
  /** How an operator raises the limit, if one was exceeded. */
  fix?: string;
  code: number | null;
  signal: string | null;
}

export interface Evidence {
  report: EndReport | null;
  /** The exit status of the outer process. */
  exit: { code: number | null; signal: string | null };
  /** Counted since the start of the process; null without cgroups. */
  counted: CgroupCounters | null;
  /** True if CPU time was limited, as for a one-call process. */
  cpu_bounded: boolean;
  /** True if the gateway killed it at its deadline. */
  timed_out: boolean;
}

const MIB = 1024 * 1024;

const LIMIT_KEYS: Partial<Record<Cause, string>> = {
  oom: "memory_bytes",
  pids: "processes",
  cpu: "cpu_seconds",
  disk: "scratch_bytes",
};

/** `package_id` is absent for a process that belongs to no package. */
export function determineExitCause(
  evidence: Evidence,
  limits: SandboxLimits,
  package_id?: string,
): ExitCause {
  const { report, exit, counted } = evidence;
  const signal = report === null ? exit.signal : signalNameOf(report.signal);
  const code = report === null ? exit.code : report.code;
  const exitCause = (cause: Cause, message: string, key = LIMIT_KEYS[cause]): ExitCause => ({
    cause,
    message,
    ...(key === undefined ? {} : { fix: describeLimitFix(key, package_id) }),
    code,
    signal,
  });
  if ((counted?.oom ?? 0) > 0) {
    return exitCause("oom", `It exceeded its memory limit of ${Math.floor(limits.memory_bytes / MIB)} MiB.`);
  }
  const used_all_cpu_time = (report?.cpu_ms ?? 0) >= limits.cpu_seconds * 1000;
  if (signal === "SIGXCPU" || (evidence.cpu_bounded && signal === "SIGKILL" && used_all_cpu_time)) {
    return exitCause("cpu", `It exceeded its limit of ${limits.cpu_seconds} s of CPU time.`);
  }
  if (report?.kept_full) return exitCause("disk", describeFullPersistentFolder(limits), "kept_bytes");
  const broken = signal !== null || code !== 0;
  if (signal === "SIGXFSZ" || (broken && report?.scratch_full)) {
    const capacity = `${Math.floor(limits.scratch_bytes / MIB)} MiB and ${limits.scratch_files} files`;
    return exitCause("disk", `It filled its scratch folder (${capacity}).`);
  }
  if (broken && (counted?.pids ?? 0) > 0) {
    return exitCause("pids", `It exceeded its limit of ${limits.processes} processes and threads.`);
  }
  if (evidence.timed_out) return exitCause("timeout", "Its deadline passed.");
  if (signal !== null) return exitCause("signal", `It was killed by ${signal}.`);
  return exitCause("exit", `It exited with code ${code ?? "unknown"}.`);
}

/** A hint for operators, because plugins cannot change their limits. */
export function describeLimitFix(keys: string, package_id: string | undefined): string {
  const section = package_id === undefined ? "limits" : `package_limits.${JSON.stringify(package_id)}`;
  return `If it needs more, raise ${keys} in [sandbox.${section}] of backplane.toml and restart the gateway.`;
}

export function describeFullPersistentFolder({ kept_bytes, kept_files }: SandboxLimits): string {
  return `Its persistent folder exceeds the limit of ${Math.floor(kept_bytes / MIB)} MiB and ${kept_files} files.`;
}

/** Returns the exit cause if it is one of the plugin's resource limits, otherwise null. */
export function exceededLimit(exitCause: ExitCause | null): ExitCause | null {
  return exitCause !== null && ["oom", "pids", "cpu", "disk"].includes(exitCause.cause) ? exitCause : null;
}

function signalNameOf(number: number): string | null {
  if (number === 0) return null;
  const known = Object.entries(constants.signals).find(([, value]) => value === number);
  return known?.[0] ?? `signal ${number}`;
}
