// Renders a component again only when a property has changed.
import { Component, h } from 'preact';

export function memo(View) {
  return class Memo extends Component {
    shouldComponentUpdate(next) {
      const names = Object.keys(next);
      return names.length !== Object.keys(this.props).length || names.some((name) => next[name] !== this.props[name]);
    }
    render() {
      return h(View, this.props);
    }
  };
}
