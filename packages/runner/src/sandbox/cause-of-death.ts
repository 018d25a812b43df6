/** Why a sandboxed process ended, from what the kernel counted and PID 1 saw. Pure. */
import { constants } from "node:os";
import type { CgroupCounters } from "../cgroup/cgroup.ts";
import type { EndReport } from "./control-channel.ts";
import type { SandboxLimits } from "./limits.ts";

type Cause = "oom" | "pids" | "cpu" | "disk" | "timeout" | "signal" | "exit";

export interface Death {
  cause: Cause;
  /** One sentence for a person, with the bound that was met. */
  message: string;
  code: number | null;
  signal: string | null;
}

export interface Evidence {
  report: EndReport | null;
  /** What the gateway saw of the outer process. */
  exit: { code: number | null; signal: string | null };
  /** Since the process began; null without cgroups. */
  counted: CgroupCounters | null;
  /** CPU time was bounded, as it is for a one-call process. */
  cpu_bounded: boolean;
  /** The gateway ended it because its time was over. */
  timed_out: boolean;
}

const MIB = 1024 * 1024;

export function causeOfDeath(evidence: Evidence, limits: SandboxLimits): Death {
  const { report, exit, counted } = evidence;
  const signal = report === null ? exit.signal : nameOf(report.signal);
  const code = report === null ? exit.code : report.code;
  const death = (cause: Cause, message: string): Death => ({ cause, message, code, signal });
  if ((counted?.oom ?? 0) > 0) {
    return death(
      "oom",
      `It used more than the ${Math.floor(limits.memory_bytes / MIB)} MiB of memory it may.`,
    );
  }
  const spent = (report?.cpu_ms ?? 0) >= limits.cpu_seconds * 1000;
  if (signal === "SIGXCPU" || (evidence.cpu_bounded && signal === "SIGKILL" && spent)) {
    return death("cpu", `It used more than the ${limits.cpu_seconds} s of CPU time it may.`);
  }
  if (report?.kept_full) return death("disk", keptFull(limits));
  const broken = signal !== null || code !== 0;
  if (signal === "SIGXFSZ" || (broken && report?.scratch_full)) {
    const room = `${Math.floor(limits.scratch_bytes / MIB)} MiB and ${limits.scratch_files} files`;
    return death("disk", `It filled its scratch folder (${room}).`);
  }
  if (broken && (counted?.pids ?? 0) > 0) {
    return death("pids", `It tried to start more than the ${limits.processes} processes and threads it may.`);
  }
  if (evidence.timed_out) return death("timeout", "Its time was over.");
  if (signal !== null) return death("signal", `It was killed by ${signal}.`);
  return death("exit", `It ended with exit code ${code ?? "unknown"}.`);
}

export function keptFull({ kept_bytes, kept_files }: SandboxLimits): string {
  return `It keeps more in its own folder than it may (${Math.floor(kept_bytes / MIB)} MiB and ${kept_files} files).`;
}

/** The death, when one of the plugin's own limits had its part in it. */
export function limitMet(death: Death | null): Death | null {
  return death !== null && ["oom", "pids", "cpu", "disk"].includes(death.cause) ? death : null;
}

function nameOf(number: number): string | null {
  if (number === 0) return null;
  const known = Object.entries(constants.signals).find(([, value]) => value === number);
  return known?.[0] ?? `signal ${number}`;
}
