import { spawn } from "node:child_process";

/** Hands a link to the desktop. A machine without one simply does nothing: the link was printed too. */
export function launchBrowser(url: string): void {
  const opener =
    process.platform === "darwin" ? "open" : process.platform === "win32" ? "explorer" : "xdg-open";
  const child = spawn(opener, [url], { stdio: "ignore", detached: true });
  child.on("error", () => {});
  child.unref();
}
