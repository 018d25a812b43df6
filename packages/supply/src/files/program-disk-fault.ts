import { type BackplaneError, diskFault } from "@backplane/contract";

/** How npm, Python and uv report errors of the file system. */
const PATTERNS: readonly (readonly [code: string, pattern: RegExp])[] = [
  ["ENOSPC", /^npm error code ENOSPC$|\[Errno 28\]|\(os error 28\)/m],
  ["EDQUOT", /^npm error code EDQUOT$|\[Errno 122\]|\(os error 122\)/m],
  ["EIO", /^npm error code EIO$|\[Errno 5\]|\(os error 5\)/m],
  ["EROFS", /^npm error code EROFS$|\[Errno 30\]|\(os error 30\)/m],
];

/** The error for a full or failing disk that made npm, pip or uv fail; null if the output does not report one. */
export function programDiskFault(program: "npm" | "pip" | "uv", output: string): BackplaneError | null {
  const code = PATTERNS.find(([, pattern]) => pattern.test(output))?.[0];
  const cause = Object.assign(new Error(output.slice(0, 1_000)), { code, syscall: program });
  return diskFault(cause, `the files that ${program} writes (the gateway's home and its temporary folder)`);
}
