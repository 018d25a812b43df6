import { Modal } from "@mantine/core";
import { Fragment } from "react";
import { NAVIGATION_ITEMS } from "./navigation.ts";
import styles from "./shell.module.css";

const KEYS: readonly (readonly [keys: readonly string[], action: string])[] = [
  [["⌘ K", "Ctrl K"], "Search pages and tools"],
  [["?"], "Show this list"],
  [["j", "k"], "Next and previous row of a list"],
  [["Enter"], "Open the row"],
  [["Esc"], "Close a dialog"],
  ...NAVIGATION_ITEMS.flatMap(({ key, label }) =>
    key === undefined ? [] : [[[`g ${key}`], `Go to ${label}`] as const],
  ),
];

export default function KeyboardHelp({ onClose }: { onClose: () => void }) {
  return (
    <Modal opened onClose={onClose} title="Keyboard shortcuts" closeButtonProps={{ "aria-label": "Close" }}>
      <table className={styles.helpTable}>
        <thead className="visually-hidden">
          <tr>
            <th scope="col">Action</th>
            <th scope="col">Keys</th>
          </tr>
        </thead>
        <tbody>
          {KEYS.map(([keys, action]) => (
            <tr key={action}>
              <th scope="row">{action}</th>
              <td>
                {keys.map((key, index) => (
                  <Fragment key={key}>
                    {index > 0 && " or "}
                    <kbd>{key}</kbd>
                  </Fragment>
                ))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Modal>
  );
}
