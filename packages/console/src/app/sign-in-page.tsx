import { Button } from "@mantine/core";
import { useEffect } from "react";
import { useServices } from "../api/services.ts";
import { Icon } from "../parts/layout/icon.tsx";
import parts from "../parts/styles/parts.module.css";
import { CliCommand } from "../parts/values/cli-command.tsx";
import styles from "./shell.module.css";

/** Shown while this browser is not signed in. A sign-in link that is opened in another tab signs this tab in too. */
export function SignInPage() {
  const { live } = useServices();
  useEffect(() => {
    document.title = "Sign in · Backplane";
  }, []);
  return (
    <main className={styles.signIn}>
      <div className={`${parts.card} ${styles.signInCard}`}>
        <span className={styles.mark}>
          <Icon name="plugin" />
        </span>
        <h1>Sign in to Backplane</h1>
        <p>
          This browser is not signed in. Run this command on the gateway's machine and open the link that it
          prints:
        </p>
        <CliCommand command="backplane open" />
        <p>The link works once and expires after five minutes. A sign-in lasts twelve hours.</p>
        <Button variant="default" onClick={() => live.recheck()}>
          Check again
        </Button>
      </div>
    </main>
  );
}
