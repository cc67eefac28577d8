/** localStorage that may be missing, full or forbidden: then things live as long as the page. */

const memory = new Map();

export function load(key) {
  try {
    const text = localStorage.getItem(key);
    return text === null ? (memory.get(key) ?? null) : JSON.parse(text);
  } catch {
    return memory.get(key) ?? null;
  }
}

export function save(key, value) {
  memory.set(key, value);
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    /* kept in memory */
  }
}

export function remove(key) {
  memory.delete(key);
  try {
    localStorage.removeItem(key);
  } catch {
    /* nothing was there */
  }
}
