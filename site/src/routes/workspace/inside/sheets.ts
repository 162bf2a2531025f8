/**
 * withoutInlineStyles lets xterm.js work under a content security policy that lets nothing be styled by text: until the function
 * that it returns is called, what is written into new <style> elements goes into style sheets that scripts own, and what is
 * written into the style attribute of new elements into the same properties. The policy allows both.
 */
export function withoutInlineStyles(): () => void {
  const sheets: CSSStyleSheet[] = [];
  const create = Document.prototype.createElement.bind(document);
  const sheet = () => {
    const owned = new CSSStyleSheet();
    sheets.push(owned);
    document.adoptedStyleSheets.push(owned);
    const place = create("template");
    Object.defineProperty(place, "textContent", { set: (css: string) => owned.replaceSync(css) });
    return place;
  };
  document.createElement = (name: string, options?: ElementCreationOptions) => {
    if (name === "style") return sheet();
    const element = create(name, options);
    element.setAttribute = (attribute, value) => {
      if (attribute === "style") element.style.cssText = value;
      else Element.prototype.setAttribute.call(element, attribute, value);
    };
    return element;
  };
  return () => {
    Reflect.deleteProperty(document, "createElement");
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => !sheets.includes(s));
  };
}
